import { useMemo } from "react";
import { $api, type Schemas } from "../../api/client";
import { type FieldSchema, useSchema } from "../../api/schema";
import type { Question } from "./Section";
import { LINES, LIST, SETTINGS, type LinesKind } from "./values";

const PARTS = {
  job: ["name", "namespace", "kind", "if_exists"],
  nodes: ["image", "instance_type", "instance_group", "zone", "nodes", "accelerators", "mig", "processes", "efa", "cpu", "memory", "shared_memory", "tolerate"],
  data: ["mounts", "env", "secret_env", "service_account"],
  life: ["run_within_seconds", "keep_seconds", "queue", "priority", "checkpointing"],
} as const;

export type Questions = Record<"job" | "nodes" | "data" | "life" | "recovery" | "elastic" | "tracking" | "ray" | "recipe", Question[]>;

/** Every question of a job, by part, from what the server says of its own request; those of the recipe from its list of recipes. */
export function useQuestions(framework: string) {
  const body = useSchema("SubmitTrainingJob");
  const [recovery, elastic, tracking, ray] = [useSchema("Recovery"), useSchema("Elastic"), useSchema("Tracking"), useSchema("RayOptions")];
  const recipes = $api.useQuery("get", "/api/v1/training-recipes", {}, { staleTime: Infinity });
  const recipe = recipes.data?.items.find((each) => each.framework === framework);
  const questions = useMemo<Questions>(() => {
    const top = (names: readonly string[]) => names.flatMap((name) => (body.data ?? []).filter((each) => each.name === name)).map((field) => asked(field.name, field));
    const inner = (group: string, fields: FieldSchema[] | undefined) => (fields ?? []).map((field) => asked(`${group}.${field.name}`, field));
    return {
      job: top(PARTS.job),
      nodes: top(PARTS.nodes),
      data: top(PARTS.data),
      life: top(PARTS.life),
      recovery: inner("recovery", recovery.data),
      elastic: inner("elastic", elastic.data).map((each) => (each.field.name === "node_counts" ? { ...each, lines: NUMBERS } : each)),
      tracking: inner("tracking", tracking.data),
      ray: inner("ray", ray.data),
      recipe: (recipe?.fields ?? []).filter((each) => each.name !== "framework").map(ofRecipe),
    };
  }, [body.data, recovery.data, elastic.data, tracking.data, ray.data, recipe]);
  const lines = useMemo(() => Object.fromEntries(Object.values(questions).flat().flatMap((each) => (each.lines ? [[each.place, each.lines] as const] : []))) as Record<string, LinesKind>, [questions]);
  return { questions, lines, recipes: recipes.data?.items ?? [], recipe, error: recipes.error ?? body.error };
}

const NUMBERS: LinesKind = { says: "One number on each line.", parse: (text) => (LIST.parse(text) as string[]).map(Number), print: LIST.print };

const asked = (place: string, field: FieldSchema): Question => ({ place, field, lines: LINES[place] });

const KINDS: Record<string, FieldSchema["kind"]> = { number: "integer", flag: "boolean", choice: "choice" };

/** A field of a recipe as a question. */
function ofRecipe(told: Schemas["RecipeField"]): Question {
  const field: FieldSchema = {
    name: told.name,
    kind: KINDS[told.type] ?? "string",
    description: told.says,
    required: told.required,
    default: (told.default as unknown) ?? undefined,
    choices: [...told.choices],
  };
  const lines = told.type === "list" ? LIST : told.type === "settings" ? SETTINGS : undefined;
  return { place: `recipe.${told.name}`, field, lines };
}
