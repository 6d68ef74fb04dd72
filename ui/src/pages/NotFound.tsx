import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { RouterLink } from "../components/RouterLink";

export function NotFound() {
  return (
    <SpaceBetween size="m">
      <Header variant="h1" description="The address may be old or mistyped.">
        There is no such page
      </Header>
      <RouterLink href="/clusters">To the clusters</RouterLink>
    </SpaceBetween>
  );
}
