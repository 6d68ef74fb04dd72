import TopNavigation, { type TopNavigationProps } from "@cloudscape-design/components/top-navigation";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { $api, api, type Schemas } from "../api/client";
import { visible } from "../components/visible";
import { useNotices } from "./notifications";
import { toggleTheme, useDark } from "./theme";

const SANDBOX = "This server speaks to a sandbox: AWS and Kubernetes are simulated, the clock runs fast, and nothing here is real or costs money.";

export function TopBar({ me }: { me: Schemas["Me"] }) {
  const navigate = useNavigate();
  const cache = useQueryClient();
  const dark = useDark();
  const { tell } = useNotices();
  const where = $api.useQuery("get", "/api/v1/clusters", { params: { query: { limit: 1 } } }, { staleTime: 300_000 });
  const leave = useMutation({
    mutationFn: async () => {
      const out = me.vouched ? await api.GET("/api/v1/sign-in/oidc/way-out").catch(() => null) : null; // a provider that is away holds nobody here
      await api.DELETE("/api/v1/session", {});
      return out?.data?.url;
    },
    onSettled: (elsewhere) => {
      cache.clear();
      if (elsewhere) location.assign(elsewhere);
      else navigate("/login");
    },
  });
  const place = where.data ? `Account ${where.data.account}` : "Account not read yet";
  const regions = where.data?.regions.join(", ") ?? "";
  const sandbox: TopNavigationProps.Utility[] = me.simulated
    ? [{ type: "button", iconName: "status-info", text: "Sandbox: AWS is simulated", title: SANDBOX, disableUtilityCollapse: true, onClick: () => tell({ type: "info", content: SANDBOX }) }]
    : [];
  return (
    <TopNavigation
      identity={{
        href: "/clusters",
        title: "InstantStart",
        onFollow: (event) => {
          event.preventDefault();
          navigate("/clusters");
        },
      }}
      utilities={[
        ...sandbox,
        { type: "button", text: dark ? "Light mode" : "Dark mode", iconName: "settings", onClick: toggleTheme },
        {
          type: "menu-dropdown",
          text: visible(me.name),
          description: `${me.role} · ${me.kind}`,
          iconName: "user-profile",
          items: [
            {
              id: "where",
              text: "Where",
              items: [
                { id: "account", text: place, disabled: true },
                { id: "region", text: regions ? `Region ${regions}` : "Region not read yet", disabled: true },
                { id: "role", text: `Role ${me.role}`, disabled: true },
                { id: "selected", text: me.selected_cluster ? `Selected cluster ${me.selected_cluster}` : "No cluster selected", disabled: true },
              ],
            },
            { id: "sessions", text: "My sessions" },
            { id: "sign-out", text: "Sign out" },
          ],
          onItemClick: ({ detail }) => {
            if (detail.id === "sessions") navigate("/sessions");
            if (detail.id === "sign-out") leave.mutate();
          },
        },
      ]}
    />
  );
}
