import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import ProgressBar from "@cloudscape-design/components/progress-bar";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Steps, { type StepsProps } from "@cloudscape-design/components/steps";
import type { Schemas } from "../api/client";
import type { Operation } from "../api/stream";
import { ProblemAlert } from "./ProblemAlert";
import { statusType, words } from "./Status";
import { duration } from "./time";

type Stage = Schemas["StageView"];

const STEP_TYPES: Record<string, StepsProps.Status> = {
  pending: "pending",
  "in-progress": "in-progress",
  success: "success",
  warning: "warning",
  error: "error",
  "not-started": "not-started",
  stopped: "stopped",
};
const FINISHED = new Set<Stage["status"]>(["done", "skipped"]);

/** Draws the stages of any workflow, from what the operation itself says; it knows no workflow. */
export function OperationProgress({ operation }: { operation: Operation }) {
  const finished = operation.stages.filter((stage) => FINISHED.has(stage.status)).length;
  const total = operation.stages.length;
  const going = operation.stages.filter((stage) => stage.status === "running" || stage.status === "waiting");
  return (
    <SpaceBetween size="l">
      <ProgressBar
        value={total ? (100 * finished) / total : 0}
        label={`${finished} of ${total} stages`}
        status={progressStatus(operation)}
        resultText={words(operation.status)}
        additionalInfo={pace(operation.elapsed_seconds, operation.typical_seconds) + (operation.slow ? "; a stage takes longer than usual" : "")}
        description={going.length ? `Now: ${going.map((stage) => stage.says).join(" · ")}` : undefined}
      />
      <Steps
        ariaLabel={`Stages of ${operation.title}`}
        steps={operation.stages.map((stage) => ({
          header: <StageHeader stage={stage} />,
          details: <StageDetails stage={stage} told={operation.problem?.["detail"]} />,
          status: STEP_TYPES[statusType(stage.status)] ?? "info",
          statusIconAriaLabel: words(stage.status),
        }))}
      />
    </SpaceBetween>
  );
}

function progressStatus(operation: Operation): "success" | "error" | "in-progress" {
  if (operation.status === "succeeded") return "success";
  return operation.status === "failed" || operation.status === "cancelled" ? "error" : "in-progress";
}

/** "1 min 5 s, usually 10 min". */
export function pace(elapsed: number, typical: number): string {
  return `${duration(elapsed)}${typical > 0 ? `, usually ${duration(typical)}` : ""}`;
}

function StageHeader({ stage }: { stage: Stage }) {
  return (
    <span data-stage={stage.name} data-status={stage.status}>
      {stage.says}
      {stage.slow && <Mark color="severity-medium">slow</Mark>}
      {stage.attempt > 1 && <Mark>attempt {stage.attempt}</Mark>}
      {stage.status === "skipped" && <Mark>nothing to do</Mark>}
    </span>
  );
}

/** Inline on purpose: the sign of a stage and its name stay on one line. */
function Mark({ color, children }: { color?: "severity-medium"; children: React.ReactNode }) {
  return (
    <>
      {" "}
      <Badge color={color}>{children}</Badge>
    </>
  );
}

/** `told`: what the operation itself already says at length, so that the stage says it in short. */
function StageDetails({ stage, told }: { stage: Stage; told: unknown }) {
  if (stage.status === "pending") {
    return stage.typical_seconds > 0 ? <Small>usually {duration(stage.typical_seconds)}</Small> : null;
  }
  const waits = stage.because && !FINISHED.has(stage.status);
  return (
    <SpaceBetween size="xxs">
      <Small>{pace(stage.elapsed_seconds, stage.typical_seconds)}</Small>
      {waits && <div className="is-wrap">{stage.because}</div>}
      {waits && stage.progress && <Count progress={stage.progress} />}
      {stage.problem && (stage.problem["detail"] === told ? <div className="is-wrap">{String(told)}</div> : <ProblemAlert error={stage.problem} />)}
    </SpaceBetween>
  );
}

function Count({ progress }: { progress: Record<string, unknown> }) {
  const done = Number(progress["done"] ?? 0);
  const total = Number(progress["total"] ?? 0);
  const unit = String(progress["unit"] ?? "");
  if (!total) return null;
  return <ProgressBar variant="standalone" value={(100 * done) / total} additionalInfo={`${done}/${total} ${unit}`} ariaLabel={unit} />;
}

function Small({ children }: { children: React.ReactNode }) {
  return (
    <Box variant="small" color="text-body-secondary">
      {children}
    </Box>
  );
}
