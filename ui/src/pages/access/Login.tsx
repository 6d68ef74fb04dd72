import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Form from "@cloudscape-design/components/form";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { $api, api, type Schemas } from "../../api/client";
import { ProblemAlert } from "../../components/ProblemAlert";

/** Signing in: with the one-time code of a link (it is in the hash, which no server and no log sees), at the identity provider, or with a token. */
export function Login() {
  const [token, setToken] = useState("");
  const [search] = useSearchParams();
  const navigate = useNavigate();
  const cache = useQueryClient();
  const next = inside(search.get("next"));
  const enter = useMutation({
    mutationFn: (ask: Schemas["SignIn"]) => api.POST("/api/v1/session", { body: ask }),
    onSuccess: () => {
      cache.clear();
      navigate(next, { replace: true });
    },
  });
  const { mutate } = enter;
  const used = useRef(false);
  useEffect(() => {
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (!code || used.current) return;
    used.current = true; // a code works once, and an effect may run twice
    history.replaceState(history.state, "", location.pathname + location.search);
    mutate({ code });
  }, [mutate]);
  return (
    <Box padding="xxxl">
      <div className="is-login">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (token) mutate({ token: token.trim() });
          }}
        >
          <Container header={<Header variant="h1">Sign in to InstantStart</Header>}>
            <Form actions={<Button variant="primary" loading={enter.isPending} disabled={!token}>Sign in</Button>}>
              <SpaceBetween size="l">
                <ProblemAlert error={enter.error} />
                {enter.isPending && <StatusIndicator type="loading">Signing in</StatusIndicator>}
                <AtTheProvider next={next} />
                <FormField label="Token" description="The server prints a one-time link when it starts; a person's token opens the console too.">
                  <Input autoFocus type="password" name="token" value={token} placeholder="ist_..." autoComplete={false} onChange={({ detail }) => setToken(detail.value)} />
                </FormField>
              </SpaceBetween>
            </Form>
          </Container>
        </form>
      </div>
    </Box>
  );
}

/** The way to the identity provider, where there is one. */
function AtTheProvider({ next }: { next: string }) {
  const ways = $api.useQuery("get", "/api/v1/sign-in", {}, { retry: false });
  if (!ways.data?.start) return null;
  const start = `${ways.data.start}?next=${encodeURIComponent(next)}`;
  return (
    <SpaceBetween size="m">
      <Button fullWidth formAction="none" iconName="external" href={start}>
        {`Sign in with ${ways.data.provider}`}
      </Button>
      <Box textAlign="center" color="text-body-secondary">
        or
      </Box>
    </SpaceBetween>
  );
}

/** Where to go on: an address of this console, never of another site. */
export function inside(next: string | null): string {
  return next && /^\/(?![/\\])/.test(next) ? next : "/clusters";
}
