import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";

const ADD = "/api/v1/clusters/{cluster}/instance-groups";
const ONE = "/api/v1/clusters/{cluster}/instance-groups/{group}";

export function addGroup(cluster: string, region: string): PlannedAct {
  return {
    title: "Add an instance group",
    button: "Add instance group",
    says: "Capacity type, network interface and zone are fixed for the life of the group.",
    schema: "AddInstanceGroup",
    region,
    send: (body, { query, header }) => api.POST(ADD, { params: { path: { cluster }, query, header }, body: body as Schemas["AddInstanceGroup"] }),
  };
}

export function scaleGroup(cluster: string, group: Schemas["GroupView"]): PlannedAct {
  return {
    title: `Scale ${group.name}`,
    button: "Scale",
    schema: "ScaleInstanceGroup",
    initial: { instance_count: group.count, expected_count: group.count },
    send: (body, { query, header }) =>
      api.POST(`${ONE}/scale`, { params: { path: { cluster, group: group.name }, query, header }, body: body as Schemas["ScaleInstanceGroup"] }),
  };
}

/** Fixed for the life of a group: shown in its detail, not asked again. */
const FIXED = ["capacity_type", "instance_type", "network_interface", "subnet_id", "training_plan_arn"];

export function updateGroup(cluster: string, group: Schemas["GroupView"]): PlannedAct {
  return {
    title: `Change ${group.name}`,
    button: "Change",
    says: "What is left empty stays as it is.",
    schema: "UpdateInstanceGroup",
    without: FIXED,
    send: (body, { query: { dry_run }, header }) =>
      api.PATCH(ONE, { params: { path: { cluster, group: group.name }, query: { dry_run }, header }, body: body as Schemas["UpdateInstanceGroup"] }),
  };
}

export function deleteGroup(cluster: string, group: Schemas["GroupView"]): PlannedAct {
  return {
    title: `Delete ${group.name}`,
    button: "Delete",
    destroys: true,
    says: "Its nodes and everything on their volumes go. A dedicated subnet stays for its successor.",
    send: (_, { query, header }) => api.DELETE(ONE, { params: { path: { cluster, group: group.name }, query, header } }),
  };
}
