import { useParams } from "react-router";
import { createEndpoint } from "./acts";
import { EndpointAsk } from "./EndpointAsk";
import { bodyOf } from "./settings";

/** A new managed endpoint. */
export function CreateEndpoint() {
  const { cluster = "" } = useParams();
  return (
    <EndpointAsk
      title="Create an inference endpoint"
      description={`The HyperPod inference operator serves the model on ${cluster}. What is left out is filled in by the server; the plan shows what is in the way.`}
      initial={{ source: { type: "s3" } }}
      actOf={(values) => (values["name"] ? createEndpoint(cluster, bodyOf(values)) : null)}
    />
  );
}
