// The frame: navigation, search, the light of the connection, and the page that the address names.
import { html, render, useEffect, useMemo, useState } from "./html.mjs";
import { FLEET, session } from "./api.mjs";
import { ask, Feed, messageOf } from "./feed.mjs";
import { safe } from "./format.mjs";
import { HELP, listen } from "./keys.mjs";
import { useNow } from "./parts.mjs";
import { useRoute } from "./router.mjs";
import { Search } from "./search.mjs";
import { Store, useStore } from "./store.mjs";

const TOPICS = ["totals", "quotas", "workers", "shares", "changes", "calibrations", "standings"];
const NAV = [["fleet", "Fleet"], ["quota", "Quota"], ["queues", "Queues"], ["jobs", "Jobs"], ["clusters", "Clusters"], ["fairness", "Fairness"], ["usage", "Usage"], ["changes", "Changes"], ["what-if", "What if"]];
const LOAD = {
  fleet: () => import("./pages/fleet.mjs"),
  quota: () => import("./pages/quota.mjs"),
  queues: () => import("./pages/queues.mjs"),
  jobs: () => import("./pages/jobs.mjs"),
  job: () => import("./pages/job.mjs"),
  clusters: () => import("./pages/clusters.mjs"),
  fairness: () => import("./pages/fairness.mjs"),
  usage: () => import("./pages/usage.mjs"),
  changes: () => import("./pages/changes.mjs"),
  "what-if": () => import("./pages/what-if.mjs"),
};
const THEMES = ["", "light", "dark"];

/** Follow the fleet; a reader without rights on all namespaces follows one. */
function useFleet(about) {
  const store = useMemo(() => new Store(), []);
  useEffect(() => {
    if (!about || about.closed) return undefined;
    let scope = "";
    const url = () => {
      const topics = scope ? ["totals", `standings:${scope}`] : TOPICS;
      const where = scope ? `/namespaces/${encodeURIComponent(scope)}` : "";
      return `${FLEET}${where}/feeds?watch=1&topics=${encodeURIComponent(topics.join(","))}`;
    };
    const narrow = (error) => {
      if (error.status !== 403 || scope || !about.namespace) return false;
      scope = about.namespace;
      for (const topic of TOPICS) store.take("hello", { refused: [{ topic, code: 403, message: error.message }] });
      return true;
    };
    const feed = new Feed(store, url, { onRefused: narrow });
    return () => feed.close();
  }, [about]);
  return useStore(store);
}

function App() {
  const route = useRoute();
  const [about, setAbout] = useState(null);
  const [help, setHelp] = useState(false);
  const [theme, setTheme] = useState(localStorage.getItem("theme") ?? "");
  const [login, setLogin] = useState(null);
  const store = useFleet(about);
  const open = async () => {
    const told = await ask("about.json").then(async (answer) => (answer.status === 401 ? { closed: await messageOf(answer) } : answer.ok ? answer.json() : about ?? {})).catch(() => about ?? {});
    if (about && told.closed) return;
    session.action = told.action ?? "";
    session.acts = told.acts ?? true;
    if (told.closed || told.login) {
      const found = await import("./login.mjs");
      if (!found.enter(told, about, store)) return;
      setLogin(found);
    }
    setAbout(told);
  };
  useEffect(() => { open(); }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  useEffect(() => listen({
    onHelp: () => setHelp((shown) => !shown),
    onPause: () => store.setPaused(!store.paused),
    onTheme: () => setTheme((now) => THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]),
    onEscape: () => setHelp(false),
  }), [store]);
  useEffect(() => { document.title = `${route.parts.at(-1) ?? titleOf(route.page)} - multiqueue`; }, [route]);
  if (!about || about.closed) return about && html`<${login.LoginPage} closed=${about.closed} open=${open} />`;
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <span class="brand"><span class="logo" aria-hidden="true"><i></i><i></i><i></i><i></i></span>multiqueue</span>
      <nav aria-label="Pages">${NAV.map(([page, title]) => html`<a href=${`#/${page}`} aria-current=${page === route.page ? "page" : undefined}>${title}</a>`)}</nav>
      <${Search} store=${store} />
      <${Light} store=${store} />
      ${about.login ? html`<${login.LogOut} about=${about} />` : html`<span class="reader soft">${safe(store.link.reader)}${about.demo ? " (demo)" : ""}</span>`}
    </header>
    ${about.login && html`<${login.LoginBar} about=${about} store=${store} open=${open} />`}
    <${Page} route=${route} store=${store} />
    ${help && html`<${Keys} close=${() => setHelp(false)} />`}`;
}

/** Show a page; its module is loaded when it is first shown, and the page before stays until then. */
function Page({ route, store }) {
  const name = route.page === "jobs" && route.parts.length === 2 ? "job" : route.page;
  const [shown, setShown] = useState({});
  useEffect(() => {
    let wanted = true;
    const show = (View) => wanted && setShown({ name, route, View });
    if (LOAD[name]) LOAD[name]().then((found) => show(found.default), () => show(null));
    return () => { wanted = false; };
  }, [name]);
  if (!LOAD[name]) return html`<main id="main"><h1>No such page</h1><p><a href="#/fleet">To the fleet</a></p></main>`;
  if (shown.View === null) return html`<main id="main"><h1>${titleOf(route.page)}</h1><p class="refusal">This page could not be loaded. <button onClick=${() => location.reload()}>Reload</button></p></main>`;
  const { View, route: before } = shown;
  const { parts, query } = shown.name === name ? route : before ?? route;
  return View && html`<${View} store=${store} parts=${parts} query=${query} />`;
}

/** How the connection is: live, catching up, or when the next attempt is made. */
function Light({ store }) {
  const now = useNow();
  const { state, text, retryAt } = store.link;
  const words = store.paused ? "paused" : state === "reconnecting" ? `reconnecting in ${Math.max(0, Math.ceil((retryAt - now) / 1000))} s` : state;
  const tone = store.paused || state === "catching up" || state === "connecting" ? "warn" : state === "live" ? "good" : "bad";
  return html`<span class=${`light ${tone}`} role="status" title=${safe(text)}><span aria-hidden="true">●</span> ${words}</span>`;
}

function Keys({ close }) {
  return html`<dialog open aria-label="Keys"><div class="bar"><h2>Keys</h2><span class="push"></span><button onClick=${close} aria-label="Close">✕</button></div>
    <dl class="keys">${HELP.map(([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl></dialog>`;
}

function skip(event) {
  event.preventDefault();
  const main = document.getElementById("main");
  main?.setAttribute("tabindex", "-1");
  main?.focus();
}

function titleOf(page) {
  return NAV.find(([name]) => name === page)?.[1] ?? page;
}

render(html`<${App} />`, document.getElementById("app"));
