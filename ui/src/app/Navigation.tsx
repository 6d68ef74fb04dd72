import SideNavigation, { type SideNavigationProps } from "@cloudscape-design/components/side-navigation";
import { useLocation, useNavigate } from "react-router";
import type { Schemas } from "../api/client";

const EVERYBODY: SideNavigationProps.Item[] = [
  { type: "link", text: "Clusters", href: "/clusters" },
  { type: "link", text: "Operations", href: "/operations" },
];
const ADMINS: SideNavigationProps.Item[] = [
  { type: "divider" },
  {
    type: "section-group",
    title: "Administration",
    items: [
      { type: "link", text: "Tokens", href: "/tokens" },
      { type: "link", text: "Audit log", href: "/audit" },
    ],
  },
];

export function Navigation({ me }: { me: Schemas["Me"] }) {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  return (
    <SideNavigation
      header={{ text: "HyperPod clusters", href: "/clusters" }}
      activeHref={`/${pathname.split("/")[1] ?? ""}`}
      items={me.role === "admin" ? [...EVERYBODY, ...ADMINS] : EVERYBODY}
      onFollow={(event) => {
        if (event.detail.external) return;
        event.preventDefault();
        navigate(event.detail.href);
      }}
    />
  );
}
