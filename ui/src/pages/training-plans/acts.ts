import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";

export function buyOffering(offering: Schemas["Offering"]): PlannedAct {
  const { offering_id, instance_type, instance_count, upfront_fee } = offering;
  return {
    title: "Buy a training plan",
    button: "Buy",
    destroys: true,
    says: `${instance_count} x ${instance_type} for ${upfront_fee ?? "an unknown fee"} ${offering.currency ?? ""}, charged at once and not given back.`,
    schema: "BuyTrainingPlan",
    without: ["offering_id", "instance_type", "instance_count", "upfront_fee", "region"],
    initial: { offering_id, instance_type, instance_count, upfront_fee: upfront_fee ?? undefined },
    send: (body, { query, header }) => api.POST("/api/v1/training-plans", { params: { query, header }, body: body as Schemas["BuyTrainingPlan"] }),
  };
}
