import Checkbox from "@cloudscape-design/components/checkbox";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Multiselect from "@cloudscape-design/components/multiselect";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useSearchParams } from "react-router";
import type { Operation } from "../../api/stream";
import { words } from "../../components/Status";
import { OperationTable } from "./OperationTable";

const STATUSES: Operation["status"][] = ["queued", "awaiting_approval", "running", "waiting", "blocked", "succeeded", "failed", "cancelled"];
const ORDERS = [
  { value: "newest", label: "Newest first" },
  { value: "oldest", label: "Oldest first" },
] as const;

/** Every operation. The filters are in the address: it can be kept, sent on and reloaded. */
export function OperationList() {
  const [search, setSearch] = useSearchParams();
  const change = (name: string, values: string[]) =>
    setSearch(
      (now) => {
        now.delete(name);
        values.filter(Boolean).forEach((value) => now.append(name, value));
        return now;
      },
      { replace: true },
    );
  const options = STATUSES.map((each) => ({ value: each, label: words(each) }));
  const status = STATUSES.filter((each) => search.getAll("status").includes(each));
  const oldest = search.get("sort") === "oldest";
  const filter = {
    ...(status.length ? { status } : {}),
    workflow: search.get("workflow") ?? undefined,
    cluster: search.get("cluster") ?? undefined,
    mine: search.has("mine") || undefined,
    sort: oldest ? ("oldest" as const) : undefined,
  };
  return (
    <OperationTable
      variant="full-page"
      filter={filter}
      header={<Header variant="h1">Operations</Header>}
      filters={
        <SpaceBetween size="xs" direction="horizontal" alignItems="center">
          <Multiselect
            ariaLabel="Status"
            placeholder="Any status"
            options={options}
            hideTokens
            inlineTokens
            selectedOptions={options.filter((each) => status.includes(each.value))}
            onChange={({ detail }) => change("status", detail.selectedOptions.map((each) => each.value ?? ""))}
          />
          <Input type="search" ariaLabel="Cluster" placeholder="Cluster" value={search.get("cluster") ?? ""} onChange={({ detail }) => change("cluster", [detail.value])} />
          <Input type="search" ariaLabel="Workflow" placeholder="Workflow, such as cluster.create" value={search.get("workflow") ?? ""} onChange={({ detail }) => change("workflow", [detail.value])} />
          <Select
            ariaLabel="Order"
            options={ORDERS}
            selectedOption={ORDERS[oldest ? 1 : 0]}
            onChange={({ detail }) => change("sort", detail.selectedOption.value === "oldest" ? ["oldest"] : [])}
          />
          <Checkbox checked={search.has("mine")} onChange={({ detail }) => change("mine", detail.checked ? ["yes"] : [])}>
            Only mine
          </Checkbox>
        </SpaceBetween>
      }
    />
  );
}
