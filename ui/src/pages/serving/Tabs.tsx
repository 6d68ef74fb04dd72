import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { InferenceTab } from "../inference/Tab";
import { Autoscalers } from "./Autoscalers";
import { Deployments } from "./Deployments";
import { Pools } from "./Pools";
import { Routers } from "./Routers";

/** Everything about serving: what answers, and the parts that we make for it. */
export function ServingTabs({ cluster }: { cluster: string }) {
  const [search, setSearch] = useSearchParams();
  const [act, setAct] = useState<PlannedAct | null>(null);
  const parts = [
    { id: "served", label: "Served models", content: <InferenceTab cluster={cluster} /> },
    { id: "deployments", label: "Deployments", content: <Deployments cluster={cluster} onAct={setAct} /> },
    { id: "pools", label: "Pools", content: <Pools cluster={cluster} onAct={setAct} /> },
    { id: "routers", label: "Routers", content: <Routers cluster={cluster} onAct={setAct} /> },
    { id: "autoscalers", label: "Autoscalers", content: <Autoscalers cluster={cluster} onAct={setAct} /> },
  ];
  const select = (part: string) =>
    setSearch(
      (now) => {
        now.set("part", part);
        return now;
      },
      { replace: true },
    );
  return (
    <>
      <Tabs variant="container" ariaLabel="Serving" activeTabId={search.get("part") ?? "served"} onChange={({ detail }) => select(detail.activeTabId)} tabs={parts} />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </>
  );
}
