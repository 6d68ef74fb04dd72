import { useCollection } from "@cloudscape-design/collection-hooks";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Pagination from "@cloudscape-design/components/pagination";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import TextFilter from "@cloudscape-design/components/text-filter";
import { useState } from "react";
import { useNavigate } from "react-router";
import { type Cluster, useClusters } from "../../api/clusters";
import { DataTable } from "../../components/DataTable";
import { ConfirmDelete } from "../../components/ConfirmDelete";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { words } from "../../components/Status";
import { COLUMNS, nodesOf } from "./columns";

const PAGE_SIZE = 20;
const ANY = { value: "", label: "Any" };

export function ClusterList() {
  const navigate = useNavigate();
  const clusters = useClusters();
  const [region, setRegion] = useState("");
  const [state, setState] = useState("");
  const [deleting, setDeleting] = useState<Cluster | null>(null);
  const all = clusters.data?.items ?? [];
  const wanted = all.filter((each) => (!region || each.region === region) && (!state || each.state === state));
  const create = <Button onClick={() => navigate("/clusters/create")}>Create cluster</Button>;
  const { items, actions, collectionProps, filterProps, paginationProps, filteredItemsCount } = useCollection(wanted, {
    filtering: {
      filteringFunction: (each, text) => [each.tag, each.region, each.state, nodesOf(each), each.why ?? ""].join(" ").toLowerCase().includes(text.toLowerCase()),
      empty: <EmptyState title="No clusters" says="An empty account becomes a verified HyperPod cluster in one form." action={create} />,
      noMatch: <EmptyState title="No cluster matches" action={<Button onClick={() => clear()}>Clear the filters</Button>} />,
    },
    sorting: { defaultState: { sortingColumn: COLUMNS[0]! } },
    pagination: { pageSize: PAGE_SIZE },
    selection: { trackBy: (each) => `${each.region}/${each.tag}` },
  });
  function clear() {
    actions.setFiltering("");
    setRegion("");
    setState("");
  }
  const chosen = collectionProps.selectedItems?.[0];
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={clusters.error} action={<Button onClick={() => void clusters.refetch()}>Try again</Button>} />
      <DataTable
        {...collectionProps}
        variant="full-page"
        columnDefinitions={COLUMNS}
        items={items}
        loading={clusters.isPending}
        loadingText="Reading the clusters"
        selectionType="single"
        isItemDisabled={(each) => !each.managed}
        ariaLabels={{
          tableLabel: "Clusters",
          selectionGroupLabel: "Choose a cluster",
          itemSelectionLabel: (_, each) => each.tag,
        }}
        wrapLines
        header={
          <Header
            variant="h1"
            counter={clusters.data ? `(${all.length})` : undefined}
            description={clusters.data ? `Account ${clusters.data.page.account}, looked at ${clusters.data.page.regions.join(", ")}` : undefined}
            actions={
              <SpaceBetween size="xs" direction="horizontal">
                <Button iconName="refresh" ariaLabel="Refresh" onClick={() => void clusters.refetch()} />
                <Button disabled={!chosen} onClick={() => chosen && setDeleting(chosen)}>
                  Delete
                </Button>
                <Button onClick={() => navigate("/clusters/import")}>Import</Button>
                <Button variant="primary" onClick={() => navigate("/clusters/create")}>
                  Create cluster
                </Button>
              </SpaceBetween>
            }
          >
            Clusters
          </Header>
        }
        filter={
          <SpaceBetween size="xs" direction="horizontal" alignItems="end">
            <TextFilter
              {...filterProps}
              filteringPlaceholder="Find clusters"
              filteringAriaLabel="Find clusters"
              countText={filteredItemsCount === undefined ? undefined : `${filteredItemsCount} of ${all.length}`}
            />
            <Filter label="State" value={state} choices={all.map((each) => each.state)} onChange={setState} />
            <Filter label="Region" value={region} choices={all.map((each) => each.region)} onChange={setRegion} />
          </SpaceBetween>
        }
        pagination={<Pagination {...paginationProps} />}
      />
      {deleting && (
        <ConfirmDelete cluster={deleting.tag} onClose={() => setDeleting(null)} onStarted={(operation) => navigate(`/operations/${operation.id}`)} />
      )}
    </SpaceBetween>
  );
}

interface FilterProps {
  label: string;
  value: string;
  choices: string[];
  onChange: (value: string) => void;
}

function Filter({ label, value, choices, onChange }: FilterProps) {
  const options = [ANY, ...[...new Set(choices)].sort().map((each) => ({ value: each, label: label === "State" ? words(each) : each }))];
  return (
    <Select
      inlineLabelText={label}
      options={options}
      selectedOption={options.find((each) => each.value === value) ?? ANY}
      onChange={({ detail }) => onChange(detail.selectedOption.value ?? "")}
    />
  );
}
