import Button from "@cloudscape-design/components/button";
import Spinner from "@cloudscape-design/components/spinner";
import { useParams } from "react-router";
import { $api } from "../../api/client";
import { ProblemAlert } from "../../components/ProblemAlert";
import { updateEndpoint } from "./acts";
import { EndpointAsk } from "./EndpointAsk";
import { bodyOf, patchOf } from "./settings";

/** Changes of a managed endpoint: only what differs is sent. */
export function EditEndpoint() {
  const { cluster = "", namespace = "", name = "" } = useParams();
  const place = { cluster, namespace, name };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/inference-endpoints/{namespace}/{name}", { params: { path: place } }, { staleTime: Infinity, refetchOnWindowFocus: false });
  if (!read.data) return read.error ? <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} /> : <Spinner size="large" />;
  const before = read.data.settings;
  return (
    <EndpointAsk
      key={read.data.generation}
      title={`Change ${namespace}/${name}`}
      description="Only what you change is sent; an empty field takes a setting away. Variables and routing are fixed."
      initial={before}
      editing
      actOf={(values) => {
        const patch = patchOf(bodyOf(before), bodyOf(values));
        return Object.keys(patch).length > 0 ? updateEndpoint(place, patch) : null;
      }}
    />
  );
}
