import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { $api, api, type Schemas } from "../../api/client";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import type { PlannedAct } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { bind, deletePool, scalePool } from "./acts";
import { Board, type Move } from "./Board";

const REFRESH_MS = 2_000;
const ONE = "/api/v1/clusters/{cluster}/model-pools/{namespace}/{name}";

/** Pools of warm workers, each with a board of whom they work for. */
export function Pools({ cluster, onAct }: { cluster: string; onAct: (act: PlannedAct) => void }) {
  const navigate = useNavigate();
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/model-pools", { params: { path: { cluster }, query: { limit: 100 } } }, { refetchInterval: REFRESH_MS });
  const create = () => navigate(`/clusters/${encodeURIComponent(cluster)}/make-pool`);
  const items = read.data?.items ?? [];
  return (
    <SpaceBetween size="l">
      <ProblemAlert error={read.error} />
      <ListHeader title="Pools" counter={read.data ? `(${read.data.total})` : undefined} description="Warm workers that are given to businesses in a moment." onRefresh={() => void read.refetch()}>
        <Button onClick={create}>Make a pool</Button>
      </ListHeader>
      {read.data && items.length === 0 && <EmptyState title="No pools" says="Warm workers wait without work, and are given to a business by one label." action={<Button onClick={create}>Make a pool</Button>} />}
      {items.map((pool) => (
        <Pool key={`${pool.namespace}/${pool.name}`} cluster={cluster} pool={pool} onAct={onAct} onMoved={() => void read.refetch()} />
      ))}
    </SpaceBetween>
  );
}

interface Props {
  cluster: string;
  pool: Schemas["PoolItem"];
  onAct: (act: PlannedAct) => void;
  onMoved: () => void;
}

function Pool({ cluster, pool, onAct, onMoved }: Props) {
  const place = { cluster, namespace: pool.namespace, name: pool.name };
  const move = useMutation({
    mutationFn: ({ worker, from, to }: Move) =>
      to === "unassigned"
        ? api.POST(`${ONE}/release`, { params: { path: place }, body: { worker, business: from } })
        : api.POST(`${ONE}/assign`, { params: { path: place }, body: { worker, business: to, expected: from } }),
    onSettled: onMoved,
  });
  return (
    <Container
      header={
        <Header
          variant="h2"
          description={`${pool.model ?? pool.engine}: ${pool.ready} of ${pool.size} workers ready, ${pool.free} free`}
          actions={
            <SpaceBetween size="xs" direction="horizontal">
              <Button onClick={() => onAct(bind(place))}>Bind a business</Button>
              <Button disabled={Boolean(pool.autoscaler)} disabledReason="An autoscaler owns the number of workers." onClick={() => onAct(scalePool(place))}>
                Scale
              </Button>
              <Button onClick={() => onAct(deletePool(place))}>Delete</Button>
            </SpaceBetween>
          }
        >
          {`${pool.namespace}/${pool.name}`}
        </Header>
      }
    >
      <SpaceBetween size="m">
        <ProblemAlert error={move.error} />
        {pool.warnings.map((each) => (
          <Alert key={each} type="warning">
            {each}
          </Alert>
        ))}
        <Board place={place} pool={pool} moving={move.isPending ? move.variables.worker : undefined} onMove={(wanted) => move.mutate(wanted)} onAct={onAct} />
      </SpaceBetween>
    </Container>
  );
}
