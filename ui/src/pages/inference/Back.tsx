import { Navigate, useParams } from "react-router";

/** Addresses between the cluster and one thing that serves lead to the list. */
export function BackToServed() {
  const { cluster = "" } = useParams();
  return <Navigate to={`/clusters/${encodeURIComponent(cluster)}?tab=inference`} replace />;
}
