import { createBrowserRouter, Navigate } from "react-router";
import { Crash } from "./Crash";
import { Shell } from "./Shell";

/** Each page is a file of its own, loaded when it is first opened. */
export const router = createBrowserRouter([
  { path: "/login", errorElement: <Crash />, hydrateFallbackElement: <></>, lazy: async () => ({ Component: (await import("../pages/access/Login")).Login }) },
  {
    path: "/",
    element: <Shell />,
    errorElement: <Crash />,
    hydrateFallbackElement: <></>,
    children: [
      { index: true, element: <Navigate to="/clusters" replace /> },
      { path: "clusters", lazy: async () => ({ Component: (await import("../pages/clusters/List")).ClusterList }) },
      { path: "clusters/create", lazy: async () => ({ Component: (await import("../pages/clusters/Create")).CreateCluster }) },
      { path: "clusters/import", lazy: async () => ({ Component: (await import("../pages/clusters/Import")).ImportCluster }) },
      { path: "clusters/:cluster", lazy: async () => ({ Component: (await import("../pages/clusters/Detail")).ClusterDetail }) },
      { path: "clusters/:cluster/submit-job", lazy: async () => ({ Component: (await import("../pages/training/Submit")).SubmitJob }) },
      { path: "clusters/:cluster/training-jobs/:kind/:namespace/:name", lazy: async () => ({ Component: (await import("../pages/training/Detail")).TrainingJob }) },
      { path: "clusters/:cluster/deploy-model", lazy: async () => ({ Component: (await import("../pages/serving/Ask")).DeployModel }) },
      { path: "clusters/:cluster/make-pool", lazy: async () => ({ Component: (await import("../pages/serving/Ask")).MakePool }) },
      { path: "clusters/:cluster/create-endpoint", lazy: async () => ({ Component: (await import("../pages/inference/Create")).CreateEndpoint }) },
      { path: "clusters/:cluster/served", lazy: async () => ({ Component: (await import("../pages/inference/Back")).BackToServed }) },
      { path: "clusters/:cluster/served/:namespace", lazy: async () => ({ Component: (await import("../pages/inference/Back")).BackToServed }) },
      { path: "clusters/:cluster/served/:namespace/:name", lazy: async () => ({ Component: (await import("../pages/inference/Served")).ServedModel }) },
      { path: "clusters/:cluster/served/:namespace/:name/edit", lazy: async () => ({ Component: (await import("../pages/inference/Edit")).EditEndpoint }) },
      { path: "operations", lazy: async () => ({ Component: (await import("../pages/operations/List")).OperationList }) },
      { path: "operations/:id", lazy: async () => ({ Component: (await import("../pages/operations/Detail")).OperationDetail }) },
      { path: "training-plans", lazy: async () => ({ Component: (await import("../pages/training-plans/List")).TrainingPlans }) },
      { path: "audit", lazy: async () => ({ Component: (await import("../pages/access/Audit")).Audit }) },
      { path: "sessions", lazy: async () => ({ Component: (await import("../pages/access/Sessions")).Sessions }) },
      { path: "tokens", lazy: async () => ({ Component: (await import("../pages/access/Tokens")).Tokens }) },
      { path: "*", lazy: async () => ({ Component: (await import("../pages/NotFound")).NotFound }) },
    ],
  },
]);
