import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { $api } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";

const REFRESH_MS = 10_000;

interface TabProps {
  cluster: string;
}

export function EventsTab({ cluster }: TabProps) {
  const events = $api.useQuery("get", "/api/v1/clusters/{cluster}/events", { params: { path: { cluster }, query: { limit: 200 } } }, { refetchInterval: REFRESH_MS });
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={events.error} action={<Button onClick={() => void events.refetch()}>Try again</Button>} />
      <DataTable
        header={<Header variant="h2" description="What CloudFormation and HyperPod said, newest first.">Events</Header>}
        items={events.data?.items ?? []}
        wrapLines
        contentDensity="compact"
        loading={events.isPending}
        loadingText="Reading the events"
        ariaLabels={{ tableLabel: "Events of the cluster" }}
        empty={<EmptyState title="No events" />}
        columnDefinitions={[
          { id: "at", header: "Time", width: 190, cell: (each) => <TimeAgo at={each.at} age={each.age_seconds} /> },
          { id: "level", header: "Level", width: 100, cell: (each) => <Status status={each.level} /> },
          { id: "source", header: "Source", width: 130, cell: (each) => each.source },
          { id: "subject", header: "About", width: 180, cell: (each) => <Text>{each.subject}</Text> },
          { id: "message", header: "Message", isRowHeader: true, cell: (each) => <Text log>{each.message}</Text> },
        ]}
      />
    </SpaceBetween>
  );
}
