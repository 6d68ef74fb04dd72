import Link, { type LinkProps } from "@cloudscape-design/components/link";
import { useNavigate } from "react-router";

/** A link of the console: followed without loading the page anew; opening it in a new tab works as everywhere. */
export function RouterLink({ href, ...rest }: LinkProps & { href: string }) {
  const navigate = useNavigate();
  return (
    <Link
      {...rest}
      href={href}
      onFollow={(event) => {
        event.preventDefault();
        navigate(href);
      }}
    />
  );
}
