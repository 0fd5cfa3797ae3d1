// What KG-RAG read for an answer: a small picture of nodes and edges, and the same as a table.

import { foreign, h, literally, outside, plain, s, scrolled } from "./dom.js";
import { lists } from "./evidence.js";
import { t, tn } from "./texts.js";

// More would be no picture; the table has all.
const DRAWN = 18;
const WIDTH = 720;
const HEIGHT = 420;

/** Returns the nodes and edges of the answer's record. */
export function graphOf(turn) {
  const details = turn.trace?.details || {};
  const cited = (details.citations || []).filter((one) => one.edge);
  const nodes = new Map();
  const edges = [];
  for (const one of cited) {
    const [from, kind, to] = one.edge.split("|");
    if (!to) continue;
    const [first, second] = namesOf(one.text, from, to);
    nodes.set(from, { id: from, type: from.split("::")[0], name: nodes.get(from)?.name || first });
    nodes.set(to, { id: to, type: to.split("::")[0], name: nodes.get(to)?.name || second });
    edges.push({ from, to, kind, cited: one });
  }
  const mentioned = new Set((details.mentions || []).map((one) => one.node));
  return { nodes: [...nodes.values()], edges, mentioned };
}

/** Returns the names of an edge's ends as its sentence writes them: "Disease A is associated with Gene B". */
function namesOf(text, from, to) {
  const [typeA, idA] = from.split("::");
  const [typeB, idB] = to.split("::");
  const found = new RegExp(`^${literally(typeA)} (.+?) (?:is|are|was|has|have|may|can|does|[a-z]+s|[a-z]+ed)\\b.* ${literally(typeB)} (.+?)\\.?$`).exec(text || "");
  return found ? [found[1], found[2]] : [idA || from, idB || to];
}

/** Returns the picture with its table. */
export function graphView(turn) {
  const graph = graphOf(turn);
  return h(
    "div",
    { class: "graph" },
    h("p", { class: "muted" }, t("graph.about", { nodes: graph.nodes.length, edges: graph.edges.length })),
    picture(graph),
    scrolled(t("graph.table"), tableOf(graph)),
  );
}

function picture(graph) {
  const edges = graph.edges.slice(0, DRAWN);
  const shown = new Set(edges.flatMap((edge) => [edge.from, edge.to]));
  const places = layout(graph, edges, shown);
  const lines = edges.map((edge) => {
    const [a, b] = [places.get(edge.from), places.get(edge.to)];
    return s("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: "edge" }, s("title", {}, plain(edge.cited.text)));
  });
  const nodes = graph.nodes.filter((node) => shown.has(node.id)).map((node) => nodeOf(node, places.get(node.id), graph.mentioned.has(node.id)));
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "graph-picture", role: "img", "aria-label": tn("graph.label", edges.length) }, ...lines, ...nodes);
}

/** Puts the nodes of the question into the middle and the others on an ellipse around them. */
function layout(graph, edges, shown) {
  const degree = (id) => edges.filter((edge) => edge.from === id || edge.to === id).length;
  const nodes = graph.nodes.filter((node) => shown.has(node.id));
  let inner = nodes.filter((node) => graph.mentioned.has(node.id));
  if (!inner.length) inner = [...nodes].sort((a, b) => degree(b.id) - degree(a.id)).slice(0, 1);
  const outer = nodes.filter((node) => !inner.includes(node));
  const places = new Map();
  inner.forEach((node, at) => places.set(node.id, { x: WIDTH / 2 + (at - (inner.length - 1) / 2) * 170, y: HEIGHT / 2 }));
  outer.forEach((node, at) => {
    const angle = (2 * Math.PI * at) / outer.length - Math.PI / 2;
    places.set(node.id, { x: WIDTH / 2 + Math.cos(angle) * (WIDTH / 2 - 90), y: HEIGHT / 2 + Math.sin(angle) * (HEIGHT / 2 - 40) });
  });
  return places;
}

function nodeOf(node, { x, y }, isMentioned) {
  const name = plain(node.name);
  const short = name.length > 22 ? `${name.slice(0, 21)}…` : name;
  const width = Math.max(64, short.length * 8 + 24);
  return s(
    "g",
    { transform: `translate(${x - width / 2} ${y - 20})`, class: isMentioned ? "node mentioned" : "node" },
    s("title", {}, `${node.type}: ${name}`),
    s("rect", { width, height: 40, rx: 20 }),
    s("text", { x: width / 2, y: 18, "text-anchor": "middle", class: "node-name" }, short),
    s("text", { x: width / 2, y: 32, "text-anchor": "middle", class: "node-type" }, node.type),
  );
}

function tableOf(graph) {
  const rows = graph.edges.map(({ cited }) =>
    h(
      "tr",
      {},
      h("td", {}, foreign(cited.text)),
      h("td", {}, foreign((cited.sources || []).join("; "))),
      h("td", { class: "number-cell" }, cited.p_value === null || cited.p_value === undefined ? "–" : String(cited.p_value)),
      h("td", {}, (cited.pmids || []).map((pmid, at) => [at ? ", " : "", outside(cited.pmid_urls?.[at], plain(pmid)), lists(cited.retracted, pmid) ? [" ", h("span", { class: "badge bad" }, t("retracted"))] : null])),
    ),
  );
  return h("table", {}, h("thead", {}, h("tr", {}, ["statement", "source", "p", "pmid"].map((name) => h("th", { scope: "col" }, t(`graph.${name}`))))), h("tbody", {}, rows));
}
