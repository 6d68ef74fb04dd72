import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";

interface Props {
  title: string;
  counter?: string;
  description?: ReactNode;
  onRefresh?: () => void;
  children?: ReactNode;
}

/** The head of a list inside a page: its name, how many, and what can be done. */
export function ListHeader({ title, counter, description, onRefresh, children }: Props) {
  return (
    <Header
      variant="h2"
      counter={counter}
      description={description}
      actions={
        <SpaceBetween size="xs" direction="horizontal">
          {onRefresh && <Button iconName="refresh" ariaLabel="Refresh" onClick={onRefresh} />}
          {children}
        </SpaceBetween>
      }
    >
      {title}
    </Header>
  );
}
