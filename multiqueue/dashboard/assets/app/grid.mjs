// A table of many rows: only those in sight are in the page. Rows are 32 px high.
import { html, useEffect, useRef, useState } from "./html.mjs";

const ROW = 32;
const SPARE = 8;

/**
 * @param {{label: string, columns: any[], rows: any[], sort: string, onSort: (key: string) => void,
 *   chosen: string, onChoose: (key: string) => void}} props
 */
export function Grid({ label, columns, rows, sort, onSort, chosen, onChoose }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setHeight(entry.contentRect.height));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => keepInSight(box.current, rows.findIndex((row) => row.key === chosen)), [chosen]);
  const first = Math.max(0, Math.floor(top / ROW) - SPARE);
  const shown = rows.slice(first, first + Math.ceil(height / ROW) + 2 * SPARE);
  const moved = (event) => setTop(event.currentTarget.scrollTop);
  return html`<div class="grid scroll" ref=${box} onScroll=${moved} tabindex="0" role="group" aria-label=${label}>
    <table aria-rowcount=${rows.length + 1}>
      <thead><tr aria-rowindex="1">${columns.map((column) => html`<${Title} key=${column.title} column=${column} sort=${sort} onSort=${onSort} />`)}</tr></thead>
      <tbody>
        ${first > 0 && html`<tr class="filler" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${first * ROW}px` }}></td></tr>`}
        ${shown.map((row, index) => html`<tr key=${row.key} aria-rowindex=${first + index + 2} class=${rowClass(row, chosen)} onClick=${(event) => choose(event, row, onChoose)}>
          ${columns.map((column) => html`<td key=${column.title} class=${`${column.right ? "right" : ""} ${column.wide ? "wide" : ""}`} data-title=${column.title}>${column.cell(row)}</td>`)}
        </tr>`)}
        ${first + shown.length < rows.length && html`<tr class="filler" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(rows.length - first - shown.length) * ROW}px` }}></td></tr>`}
      </tbody>
    </table>
  </div>`;
}

function Title({ column, sort, onSort }) {
  const name = column.sort;
  const order = sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none";
  if (!name) return html`<th scope="col" class=${column.right ? "right" : ""}>${column.title}</th>`;
  const mark = { ascending: "▲", descending: "▼", none: "" }[order];
  return html`<th scope="col" class=${column.right ? "right" : ""} aria-sort=${order}>
    <button class="plain" onClick=${() => onSort(order === "ascending" ? `-${name}` : name)}>${column.title} <span aria-hidden="true">${mark}</span></button></th>`;
}

function rowClass(row, chosen) {
  const fresh = row.fresh && Date.now() - row.fresh < 1000 ? "fresh" : "";
  return `${fresh} ${row.key === chosen ? "chosen" : ""}`;
}

function choose(event, row, onChoose) {
  if (!event.target.closest("a, button")) onChoose(row.key);
}

function keepInSight(box, index) {
  if (!box || index < 0) return;
  const at = index * ROW;
  if (at < box.scrollTop) box.scrollTop = at;
  else if (at > box.scrollTop + box.clientHeight - 3 * ROW) box.scrollTop = at - box.clientHeight + 3 * ROW;
}

/** Rows in an order: `key`, or `-key` for the reverse. @param {any[]} rows @param {string} sort @param {Record<string, (row: any) => any>} by */
export function sorted(rows, sort, by) {
  const name = sort.replace(/^-/, "");
  const value = by[name] ?? ((row) => row[name]);
  const sign = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => sign * compare(value(a), value(b)) || a.key.localeCompare(b.key));
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "string" ? a.localeCompare(b) : a - b;
}
