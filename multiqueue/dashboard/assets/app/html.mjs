// The one place that names the vendored libraries.
import { h, render } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.mjs";
export { render };
export const html = htm.bind(h);
