import { useState } from "react";
import { landOnFields, problemOf } from "../api/problems";
import type { Values } from "./SchemaField";

/** The answers of a form and what the server says of them. A field that is changed loses its message. */
export function useForm(initial: Values = {}) {
  const [values, setValues] = useState<Values>(initial);
  const [errors, setErrors] = useState<Record<string, string>>({});
  return {
    values,
    errors,
    set(name: string, value: unknown) {
      setValues((now) => ({ ...now, [name]: value }));
      setErrors((now) => Object.fromEntries(Object.entries(now).filter(([field]) => field !== name)));
    },
    /** Land a refusal on the fields that are `shown`. */
    refuse(error: unknown, shown: readonly string[]) {
      setErrors(landOnFields(problemOf(error), shown).byField);
    },
    /** What was asked may be done; what a plan still finds wrong stands at its field. */
    accept: (wrong: Record<string, string> = {}) => setErrors(wrong),
  };
}

/** The body of a request: what was left empty is left out, so that the server's own defaults hold. */
export function bodyOf(values: Values): Values {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0)));
}
