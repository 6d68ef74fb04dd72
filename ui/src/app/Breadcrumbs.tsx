import BreadcrumbGroup from "@cloudscape-design/components/breadcrumb-group";
import { useEffect } from "react";
import { useLocation, useNavigate } from "react-router";
import { words } from "../components/Status";

/** Parts of addresses that are words of ours and not names. */
const OURS = new Set(["create", "import"]);

/** The way here, from the address itself; the title of the window says it too. */
export function Breadcrumbs() {
  const navigate = useNavigate();
  const parts = useLocation().pathname.split("/").filter(Boolean);
  const items = parts.map((part, i) => ({
    text: i === 0 || OURS.has(part) ? words(part.replaceAll("-", "_")) : decodeURIComponent(part),
    href: `/${parts.slice(0, i + 1).join("/")}`,
  }));
  const title = [...items.map((each) => each.text).reverse(), "InstantStart"].join(" - ");
  useEffect(() => {
    document.title = title;
  }, [title]);
  return (
    <BreadcrumbGroup
      items={[{ text: "InstantStart", href: "/" }, ...items]}
      onFollow={(event) => {
        event.preventDefault();
        navigate(event.detail.href);
      }}
    />
  );
}
