import { useCollection } from "@cloudscape-design/collection-hooks";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import SpaceBetween from "@cloudscape-design/components/space-between";
import TextFilter from "@cloudscape-design/components/text-filter";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import type { Column } from "../../components/columns";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { addGroup, deleteGroup, scaleGroup, updateGroup } from "./acts";

const REFRESH_MS = 10_000;
type Group = Schemas["GroupView"];

const COLUMNS: Column<Group>[] = [
  { id: "name", header: "Group", isRowHeader: true, sortingField: "name", minWidth: 120, cell: NameCell },
  { id: "status", header: "Status", sortingField: "status", minWidth: 120, cell: (each) => <Status status={each.status === "InService" ? "ready" : each.status}>{each.status}</Status> },
  { id: "nodes", header: "Nodes", sortingField: "current", cell: (each) => `${each.current}/${each.count}` },
  { id: "type", header: "Type", minWidth: 130, cell: (each) => each.instance_types.join(", ") },
  { id: "capacity", header: "Capacity", sortingField: "capacity_type", minWidth: 120, cell: CapacityCell },
  { id: "zone", header: "Zone", minWidth: 110, cell: (each) => each.zones.join(", ") || "-" },
  { id: "why", header: "Remarks", minWidth: 140, cell: RemarksCell },
];

export function GroupsTab({ cluster, region }: { cluster: string; region: string }) {
  const groups = $api.useQuery("get", "/api/v1/clusters/{cluster}/instance-groups", { params: { path: { cluster } } }, { refetchInterval: REFRESH_MS });
  const [act, setAct] = useState<PlannedAct | null>(null);
  const add = <Button onClick={() => setAct(addGroup(cluster, region))}>Add instance group</Button>;
  const { items, collectionProps, filterProps, filteredItemsCount } = useCollection(groups.data?.items ?? [], {
    filtering: {
      filteringFunction: (each, text) => [each.name, each.status, each.capacity_type, ...each.instance_types, ...each.zones, each.why ?? ""].join(" ").toLowerCase().includes(text.toLowerCase()),
      empty: <EmptyState title="No instance groups" says="A group is nodes of one type, in one zone, paid for in one way." action={add} />,
      noMatch: <EmptyState title="No group matches" />,
    },
    sorting: { defaultState: { sortingColumn: COLUMNS[0]! } },
    selection: { trackBy: "name" },
  });
  const chosen = collectionProps.selectedItems?.[0];
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={groups.error} action={<Button onClick={() => void groups.refetch()}>Try again</Button>} />
      <DataTable
        {...collectionProps}
        columnDefinitions={COLUMNS}
        items={items}
        selectionType="single"
        wrapLines
        loading={groups.isPending}
        loadingText="Reading the instance groups"
        ariaLabels={{ tableLabel: "Instance groups", selectionGroupLabel: "Choose a group", itemSelectionLabel: (_, each) => each.name }}
        filter={<TextFilter {...filterProps} filteringPlaceholder="Find groups" filteringAriaLabel="Find groups" countText={`${filteredItemsCount ?? 0} found`} />}
        header={
          <ListHeader title="Instance groups" counter={groups.data ? `(${groups.data.items.length})` : undefined} onRefresh={() => void groups.refetch()}>
            <Button disabled={!chosen} onClick={() => chosen && setAct(scaleGroup(cluster, chosen))}>
              Scale
            </Button>
            <ButtonDropdown
              disabled={!chosen}
              items={[
                { id: "change", text: "Change settings" },
                { id: "delete", text: "Delete" },
              ]}
              onItemClick={({ detail }) => chosen && setAct(detail.id === "delete" ? deleteGroup(cluster, chosen) : updateGroup(cluster, chosen))}
            >
              Actions
            </ButtonDropdown>
            {add}
          </ListHeader>
        }
      />
      {groups.data && groups.data.left_subnets.length > 0 && (
        <Box variant="small" color="text-body-secondary">
          Dedicated subnets of groups that are gone, offered to their successors: {groups.data.left_subnets.join(", ")}
        </Box>
      )}
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

function NameCell(group: Group) {
  return (
    <>
      {group.name}
      {group.owner && (
        <Box variant="small" color="text-body-secondary" display="block">
          scaled by Karpenter ({group.owner})
        </Box>
      )}
    </>
  );
}

function CapacityCell(group: Group) {
  return (
    <>
      {words(group.capacity_type)}
      {group.network_interface === "efa_only" && (
        <Box variant="small" color="text-body-secondary" display="block">
          EFA only
        </Box>
      )}
    </>
  );
}

function RemarksCell(group: Group) {
  if (group.operation) return <RouterLink href={`/operations/${group.operation.id}`}>{group.operation.workflow}</RouterLink>;
  return <Text>{group.why ?? "-"}</Text>;
}
