// The login of the dashboard beside the manager. This module is loaded only if there is one.
import { html, useEffect, useState } from "./html.mjs";
import { clock, safe } from "./format.mjs";
import { messageOf } from "./feed.mjs";
import { send, session } from "./api.mjs";
import { useNow } from "./parts.mjs";

const SOON_MS = 5 * 60_000;

/** Go on as the reader that the server told of, and return true; another one than before gets a page of their own. */
export function enter(told, before, store) {
  if (before?.login && before.login.reader !== told.login?.reader) {
    session.action = "";
    location.reload();
    return false;
  }
  session.ended = () => dispatchEvent(new Event("ended"));
  session.logins += 1;
  if (store.link.state !== "live") store.setLink({ state: "connecting" });
  // Streams that wait try again.
  dispatchEvent(new Event("online"));
  return true;
}

/** The page of a reader who is not known yet; `closed` is why, and other words than the manager's own are those of a proxy that should have done the login. @param {{closed: string, open: () => void}} props */
export function LoginPage({ closed, open }) {
  useEffect(() => { document.title = "Log in - multiqueue"; }, []);
  return html`<main id="main" class="login">
    <p class="brand bar"><span class="logo" aria-hidden="true"><i></i><i></i><i></i><i></i></span>multiqueue</p>
    ${closed === "Unauthorized" ? html`<div class="card-like"><h1>Log in</h1>
      <p class="soft bar">You see and change what your token allows in this cluster, and nothing else.</p>
      <${Form} done=${open} focus />
    </div>
    <h2>Where to get a token</h2>
    <p>For a service account, ask kubectl:</p>
    <p class="card-like nested bar"><code>kubectl create token NAME -n NAMESPACE --duration 8h</code></p>
    <p>The ID token of your company's login works too, if the API server of this cluster trusts it.</p>
    <p class="soft">The token is kept in a sealed cookie that no script can read, until it expires or you log out, for 12 hours at most.</p>` : html`<h1>You are not logged in</h1>
    <p class="refusal" role="alert">${safe(closed)}</p>
    <button onClick=${() => location.reload()}>Try again</button>`}
  </main>`;
}

/** A login in place: the page behind it stays as it was. A proxy asks for it on a page of its own; then the feed comes through by itself. @param {{about: any, store: any, open: () => void}} props */
export function LoginBar({ about, store, open }) {
  const now = useNow();
  const [asked, setAsked] = useState(false);
  const { state, at } = store.link;
  const [lost, setLost] = useState(false);
  const done = () => { setAsked(false); open(); };
  useEffect(() => {
    document.body.className = state === "signed out" ? "stale" : "";
    if (state === "live" && lost && !about.login.expires) open();
    if (state !== "catching up") setLost(state === "signed out" || state === "renewing");
  }, [state]);
  const form = html`<${Form} done=${done} namespace=${about.namespace} />`;
  if (state === "signed out") {
    return html`<section class="note bar" aria-label="Log in again">
      <p role="status"><strong>Your login has ended.</strong> The page shows what was known ${at ? `at ${clock(new Date(at).toISOString())}` : "before"}. Log in to go on.</p>
      ${about.login.expires ? form : html`<a class="button" href=${location.href} target="_blank">Log in, in a new tab</a>`}</section>`;
  }
  if (!about.login.expires) return (state === "no right" || store.topic("standings").refused) && html`<${Namespace} name=${about.namespace} />`;
  if (Date.parse(about.login.expires) - now > SOON_MS) return null;
  return html`<section class="note bar" aria-label="Log in again"><p role="status">Your login ends at ${clock(about.login.expires, false)}.</p>
    ${asked ? form : html`<button onClick=${() => setAsked(true)}>Log in again</button>`}</section>`;
}

/** Who is logged in, and the way out; a proxy has its own. @param {{about: any}} props */
export function LogOut({ about }) {
  const leave = async () => {
    const answer = await send("logout", "{}").catch(() => null);
    if (answer?.ok || answer?.status === 401) location.reload();
  };
  return html`<span class="reader soft" title=${safe(about.login.reader)}>${safe(about.login.reader.split(":").pop())}</span>${about.login.expires && html`<button onClick=${leave}>Log out</button>`}`;
}

/** The namespace of a reader who may not see all; where a form asks for a token, it asks for this, too. */
function Namespace({ name }) {
  const choose = (event) => {
    event.preventDefault();
    document.cookie = `multiqueue-namespace=${encodeURIComponent(event.target[0].value.trim())};max-age=31536000;secure;samesite=strict`;
    location.reload();
  };
  return html`<form class="note bar" onSubmit=${choose}><label>You may not see all namespaces. Yours: <input placeholder="namespace" defaultValue=${name} /></label> <button>Show</button></form>`;
}

function Form({ done, focus = false, namespace = "" }) {
  const [form, setForm] = useState({ token: "", namespace });
  const [told, setTold] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const answer = await send("login", JSON.stringify(form));
      setTold(answer.ok ? "" : await messageOf(answer));
      if (answer.ok) done();
    } catch (error) {
      setTold(`the manager cannot be reached: ${error.message}`);
    }
    setBusy(false);
  };
  const field = (name) => ({ value: form[name], onInput: (event) => setForm({ ...form, [name]: event.target.value }), autocomplete: "off", spellcheck: false });
  return html`<form class="confirm" onSubmit=${submit}>
    <label>Token <input type="password" required autofocus=${focus} ...${field("token")} /></label>
    <label>Namespace <input placeholder="if you may see one only" ...${field("namespace")} /></label>
    <button class="main" disabled=${busy || !form.token.trim()}>Log in</button>
    ${told && html`<p class="refusal" role="alert">${safe(told)}</p>`}</form>`;
}
