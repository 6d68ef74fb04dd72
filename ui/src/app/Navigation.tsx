import Badge from "@cloudscape-design/components/badge";
import SideNavigation, { type SideNavigationProps } from "@cloudscape-design/components/side-navigation";
import { useLocation, useNavigate } from "react-router";
import { $api, type Schemas } from "../api/client";

const REFRESH_MS = 15_000;
const MOST_COUNTED = 20;

/** What stands still until a person does something about it. */
const WAITING = "/operations?status=awaiting_approval&status=blocked";

function everybody(waiting: number): SideNavigationProps.Item[] {
  const needed: SideNavigationProps.Item = {
    type: "link",
    text: "Waiting for a person",
    href: WAITING,
    info: <Badge color="red">{waiting === MOST_COUNTED ? `${waiting}+` : waiting}</Badge>,
  };
  return [
    { type: "link", text: "Clusters", href: "/clusters" },
    { type: "link", text: "Training plans", href: "/training-plans" },
    { type: "link", text: "Operations", href: "/operations" },
    ...(waiting ? [needed] : []),
  ];
}

const ADMINS: SideNavigationProps.Item[] = [
  { type: "divider" },
  {
    type: "section-group",
    title: "Administration",
    items: [
      { type: "link", text: "Users and tokens", href: "/tokens" },
      { type: "link", text: "Sessions", href: "/sessions" },
      { type: "link", text: "Audit log", href: "/audit" },
    ],
  },
];

export function Navigation({ me }: { me: Schemas["Me"] }) {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const query = { status: ["awaiting_approval" as const, "blocked" as const], limit: MOST_COUNTED };
  const waiting = $api.useQuery("get", "/api/v1/operations", { params: { query } }, { refetchInterval: REFRESH_MS });
  const links = everybody(waiting.data?.items.length ?? 0);
  return (
    <SideNavigation
      header={{ text: "HyperPod clusters", href: "/clusters" }}
      activeHref={`/${pathname.split("/")[1] ?? ""}`}
      items={me.role === "admin" ? [...links, ...ADMINS] : links}
      onFollow={(event) => {
        if (event.detail.external) return;
        event.preventDefault();
        navigate(event.detail.href);
      }}
    />
  );
}
