import BreadcrumbGroup from "@cloudscape-design/components/breadcrumb-group";
import { useEffect } from "react";
import { useLocation, useNavigate } from "react-router";
import { words } from "../components/Status";

/** Parts of addresses that are words of ours and not names. */
const OURS = new Set(["create", "import", "submit-job"]);
/** Parts that are no pages of their own, and the tab of the cluster that stands for them. */
const TABS: Record<string, string> = { "training-jobs": "training" };

/** A part of an address in words; one that is wrongly encoded as it stands. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The way here, from the address itself; the title of the window says it too. */
export function Breadcrumbs() {
  const navigate = useNavigate();
  const parts = useLocation().pathname.split("/").filter(Boolean);
  const tab = parts.findIndex((part) => part in TABS);
  const items = parts.flatMap((part, i) => {
    if (i === tab) return [{ text: words(part.replaceAll("-", "_")), href: `/${parts.slice(0, i).join("/")}?tab=${TABS[part]}` }];
    if (tab >= 0 && i > tab && i < parts.length - 1) return []; // kind and namespace say which, and are no pages
    return [{ text: i === 0 || OURS.has(part) ? words(part.replaceAll("-", "_")) : decoded(part), href: `/${parts.slice(0, i + 1).join("/")}` }];
  });
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
