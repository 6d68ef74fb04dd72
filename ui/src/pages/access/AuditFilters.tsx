import DateRangePicker, { type DateRangePickerProps } from "@cloudscape-design/components/date-range-picker";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { paths } from "../../api/api.d";

export type Wanted = Omit<NonNullable<paths["/api/v1/audit"]["get"]["parameters"]["query"]>, "limit" | "cursor">;
const NAMES = ["identity", "face", "action", "outcome", "cluster", "operation_id", "after", "before", "text", "order"] as const;

/** The filters that an address names. */
export function wantedOf(search: URLSearchParams): Wanted {
  return Object.fromEntries(NAMES.flatMap((name) => (search.get(name) ? [[name, search.get(name)]] : []))) as Wanted;
}

/** Where the file with the same lines is. */
export function exportAddress(wanted: Wanted, form: "csv" | "jsonl"): string {
  return `/api/v1/audit/export?${new URLSearchParams({ ...(wanted as Record<string, string>), form }).toString()}`;
}

const FACES = [{ value: "", label: "Any door" }, ...["console", "api", "cli", "mcp"].map((each) => ({ value: each, label: each }))];
const OUTCOMES = [
  { value: "", label: "Any answer" },
  { value: "done", label: "Done" },
  { value: "refused", label: "Refused at the door" },
  { value: "failed", label: "Failed" },
];
const LATELY: DateRangePickerProps.RelativeOption[] = [
  { key: "hour", amount: 1, unit: "hour", type: "relative" },
  { key: "day", amount: 1, unit: "day", type: "relative" },
  { key: "week", amount: 7, unit: "day", type: "relative" },
  { key: "month", amount: 30, unit: "day", type: "relative" },
];
const SECONDS: Record<string, number> = { second: 1, minute: 60, hour: 3600, day: 86_400, week: 604_800, month: 2_592_000, year: 31_536_000 };

export function AuditFilters({ wanted, onChange }: { wanted: Wanted; onChange: (name: string, value: string) => void }) {
  const text = (name: "text" | "action" | "cluster" | "identity", label: string) => (
    <Input type="search" ariaLabel={label} placeholder={label} value={wanted[name] ?? ""} onChange={({ detail }) => onChange(name, detail.value)} />
  );
  const pick = (name: "face" | "outcome", label: string, options: { value: string; label: string }[]) => (
    <Select ariaLabel={label} options={options} selectedOption={options.find((each) => each.value === wanted[name]) ?? options[0]!} onChange={({ detail }) => onChange(name, detail.selectedOption.value ?? "")} />
  );
  return (
    <SpaceBetween size="xs" direction="horizontal" alignItems="center">
      {text("text", "Name, address, path or code")}
      {text("identity", "Identity id")}
      {text("action", "Action, such as token_create")}
      {text("cluster", "Cluster")}
      {pick("face", "Door", FACES)}
      {pick("outcome", "Answer", OUTCOMES)}
      <Range wanted={wanted} onChange={onChange} />
    </SpaceBetween>
  );
}

function Range({ wanted, onChange }: { wanted: Wanted; onChange: (name: string, value: string) => void }) {
  const value = wanted.after ? { type: "absolute" as const, startDate: wanted.after, endDate: wanted.before ?? new Date().toISOString() } : null;
  return (
    <DateRangePicker
      placeholder="Any time"
      value={value}
      relativeOptions={LATELY}
      isValidRange={() => ({ valid: true })}
      i18nStrings={WORDS}
      onChange={({ detail }) => {
        const [after, before] = momentsOf(detail.value);
        onChange("after", after);
        onChange("before", before);
      }}
    />
  );
}

/** The two moments of a range, as the server takes them. */
export function momentsOf(range: DateRangePickerProps.Value | null): [string, string] {
  if (!range) return ["", ""];
  if (range.type === "absolute") return [new Date(range.startDate).toISOString(), new Date(range.endDate).toISOString()];
  return [new Date(Date.now() - range.amount * (SECONDS[range.unit] ?? 1) * 1000).toISOString(), ""];
}

const WORDS: DateRangePickerProps.I18nStrings = {
  formatRelativeRange: (range) => `Last ${range.amount} ${range.unit}${range.amount === 1 ? "" : "s"}`,
  formatUnit: (unit, value) => (value === 1 ? unit : `${unit}s`),
  relativeModeTitle: "Lately",
  absoluteModeTitle: "From and to",
  relativeRangeSelectionHeading: "Choose a time",
  customRelativeRangeOptionLabel: "Another",
  customRelativeRangeOptionDescription: "Choose how long",
  customRelativeRangeDurationLabel: "How many",
  customRelativeRangeUnitLabel: "Of what",
  startDateLabel: "From day",
  startTimeLabel: "From time",
  endDateLabel: "To day",
  endTimeLabel: "To time",
  clearButtonLabel: "Any time",
  cancelButtonLabel: "Cancel",
  applyButtonLabel: "Apply",
  todayAriaLabel: "Today",
  nextMonthAriaLabel: "Next month",
  previousMonthAriaLabel: "Previous month",
};
