import { EmptyState } from "../components/EmptyState";
import { RouterLink } from "../components/RouterLink";

export function NotFound() {
  return <EmptyState title="There is no such page" says="The address may be old or mistyped." action={<RouterLink href="/clusters">To the clusters</RouterLink>} />;
}
