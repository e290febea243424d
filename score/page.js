"use strict";
(() => {
  const $ = id => document.getElementById(id);
  const score = JSON.parse($("score").textContent);
  let entries = score.entries || [];
  const laneWidth = 80, nameWidth = 150, timeWidth = 88, rowHeight = 22, textWidth = 900;
  const usual = ["kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"];
  let shown = [], lanes = [], chosen = null, only = null; // only: the objects of a tree, by identity

  const make = (tag, className, text) => {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const nameOf = o => o.kind + " " + (o.namespace ? o.namespace + "/" : "") + o.name;
  const idOf = o => o.uid || nameOf(o);
  const writersOf = e => (e.writers || []).map(w => w.manager);
  const timeOf = ms => ms >= 10000 ? (ms / 1000).toFixed(2) + " s" : ms.toFixed(1) + " ms";

  function textOf(e) {
    let text = e.verb + " " + nameOf(e.object);
    const sub = (e.writers || []).map(w => w.subresource).filter(Boolean);
    if (sub.length) text += " (" + sub.join(", ") + ")";
    if (e.why) text += ": " + e.why;
    else if (e.fields) text += ": " + e.fields.map(f => f.path).join(", ");
    return text + (e.missed ? " [found by listing]" : "");
  }

  function matches(e) {
    const needle = $("find").value.toLowerCase();
    return (!$("namespace").value || (e.object.namespace || "(cluster)") === $("namespace").value) &&
      (!$("kind").value || e.object.kind === $("kind").value) &&
      (!$("writer").value || writersOf(e).includes($("writer").value)) &&
      ($("leases").checked || e.object.kind !== "Lease" || $("kind").value === "Lease") &&
      ($("events").checked || e.verb !== "event") &&
      (!only || only.has(idOf(e.object))) &&
      (!needle || (textOf(e) + " " + JSON.stringify(e.fields || [])).toLowerCase().includes(needle));
  }

  function refill(id, values) {
    const select = $(id), had = new Set([...select.options].map(o => o.value));
    for (const value of [...values].sort()) {
      if (had.has(value)) continue;
      const option = make("option", "", value);
      option.value = value;
      select.append(option);
    }
  }

  function refresh() {
    refill("namespace", new Set(entries.map(e => e.object.namespace || "(cluster)")));
    refill("kind", new Set(entries.map(e => e.object.kind)));
    refill("writer", new Set(entries.flatMap(writersOf)));
    shown = entries.filter(matches);
    const found = [...new Set(shown.flatMap(writersOf))];
    lanes = usual.filter(u => found.includes(u)).concat(found.filter(f => !usual.includes(f)));
    $("shown").textContent = shown.length + " of " + entries.length + " entries";
    const objects = new Set(entries.map(e => idOf(e.object)));
    $("summary").textContent = "from " + score.started + ": " + entries.length + " changes of " + objects.size +
      " objects by " + new Set(entries.flatMap(writersOf)).size + " writers";
    $("warnings").textContent = warnings().join("\n");
    drawLanes();
    drawRows();
    if (!$("owners").hidden) drawOwners();
  }

  function warnings() {
    const out = [];
    if (score.dropped) out.push(score.dropped + " older entries were dropped");
    const gaps = score.gaps || [];
    if (gaps.length) {
      const lost = gaps.filter(g => g.lost).length;
      out.push("watches of " + new Set(gaps.map(g => g.resource)).size + " resources were interrupted between " +
        timeOf(gaps.reduce((m, g) => Math.min(m, g.from), Infinity)) + " and " +
        timeOf(gaps.reduce((m, g) => Math.max(m, g.to), 0)) +
        (lost ? ", " + lost + " could not go on without a list" : ""));
    }
    for (const [name, why] of Object.entries(score.unwatched || {})) out.push("not watched: " + name + ": " + why);
    return out;
  }

  const laneX = i => timeWidth + laneWidth * i;

  function drawLanes() {
    $("lanes").replaceChildren(...lanes.map((lane, i) => {
      const e = make("span", "lane", lane);
      e.style.left = laneX(i) + (laneWidth - nameWidth) / 2 + "px";
      // Names are wider than lanes: neighbours differ in height.
      e.style.top = i % 2 ? "20px" : "3px";
      e.title = lane;
      return e;
    }));
    const width = laneX(lanes.length) + textWidth;
    for (const id of ["lanes", "scroll"]) $(id).style.minWidth = width + "px";
  }

  // Only the rows in sight are elements: a score has many thousands.
  function drawRows() {
    const view = $("scroll"), height = view.clientHeight || 600;
    $("rows").style.height = shown.length * rowHeight + "px";
    const first = Math.max(0, Math.floor(view.scrollTop / rowHeight) - 10);
    const last = Math.min(shown.length, Math.ceil((view.scrollTop + height) / rowHeight) + 10);
    $("rows").replaceChildren(...shown.slice(first, last).map((e, i) => row(e, first + i)));
  }

  function row(e, at) {
    const out = make("div", "row " + e.verb + (e.missed ? " missed" : "") + (e === chosen ? " chosen" : ""));
    out.style.top = at * rowHeight + "px";
    out.append(make("span", "at", timeOf(e.at)));
    lanes.forEach((lane, i) => {
      const rail = make("span", "rail");
      rail.style.left = laneX(i) + laneWidth / 2 + "px";
      out.append(rail);
      if (!writersOf(e).includes(lane)) return;
      const dot = make("span", "dot");
      dot.style.left = laneX(i) + laneWidth / 2 - 5 + "px";
      dot.title = lane;
      out.append(dot);
    });
    const text = make("span", "text", textOf(e));
    text.style.left = laneX(lanes.length) + 8 + "px";
    out.append(text);
    out.addEventListener("click", () => choose(e));
    return out;
  }

  function choose(e) {
    chosen = e;
    const detail = [make("h2", "", e.verb + " " + nameOf(e.object))];
    detail.push(make("p", "", timeOf(e.at) + " after the beginning" +
      (e.resourceVersion ? ", version " + e.resourceVersion : "")));
    for (const w of e.writers || []) {
      detail.push(make("p", "", "by " + w.manager + (w.subresource ? " on " + w.subresource : "") +
        (w.operation ? " (" + w.operation + ")" : "")));
    }
    if (e.why) detail.push(make("p", "why", "Why: " + e.why));
    if (e.missed) {
      detail.push(make("p", "", "It was found by listing, after its watch had ended: it took place some time before, " +
        "perhaps in several steps."));
    }
    for (const o of e.owners || []) {
      detail.push(make("p", "", (o.controller ? "controlled by " : "owned by ") + o.kind + " " + o.name));
    }
    if (e.fields) {
      const table = make("table", "fields");
      for (const f of e.fields) {
        const line = make("tr"), path = make("td");
        path.append(make("code", "", f.path));
        line.append(path, make("td", "", (f.from || f.to) ? (f.from || "none") + " → " + (f.to || "none") : ""));
        table.append(line);
      }
      detail.push(table);
      if (e.moreFields) detail.push(make("p", "", "and " + e.moreFields + " more fields"));
    }
    const all = make("button", "", "Only this object");
    all.addEventListener("click", () => { only = new Set([idOf(e.object)]); refresh(); });
    detail.push(all);
    $("detail").replaceChildren(...detail);
    drawRows();
  }

  // tree has a node per object, with those that it owns. Owners that had no change of their own are nodes, too.
  function tree() {
    const nodes = new Map();
    const node = (id, name, kind) => {
      if (!nodes.has(id)) {
        nodes.set(id, { id, name, kind, owned: new Set(), owner: false, writers: new Map(), gone: false, count: 0 });
      }
      return nodes.get(id);
    };
    for (const e of entries) {
      const n = node(idOf(e.object), nameOf(e.object), e.object.kind);
      n.name = nameOf(e.object);
      n.count++;
      if (e.verb === "delete") n.gone = true;
      if (matches(e)) n.matched = true;
      for (const w of writersOf(e)) n.writers.set(w, (n.writers.get(w) || 0) + 1);
      for (const o of e.owners || []) {
        node(o.uid, o.kind + " " + (e.object.namespace ? e.object.namespace + "/" : "") + o.name, o.kind).owned.add(n);
        n.owner = true;
      }
    }
    return [...nodes.values()];
  }

  const within = (n, seen) => {
    if (seen.has(n.id)) return seen;
    seen.add(n.id);
    n.owned.forEach(o => within(o, seen));
    return seen;
  };
  const wanted = (n, seen = new Set()) =>
    !seen.has(n.id) && (seen.add(n.id), n.matched || [...n.owned].some(o => wanted(o, seen)));

  function drawOwners() {
    const limit = 500;
    const roots = tree().filter(n => !n.owner && wanted(n))
      .sort((a, b) => b.owned.size - a.owned.size || (a.name < b.name ? -1 : 1));
    const list = make("ul");
    const draw = (n, path) => {
      const item = make("li");
      const object = make("span", "object" + (n.gone ? " gone" : ""), n.name);
      object.addEventListener("click", () => { only = within(n, new Set()); show("sequence"); });
      item.append(object, make("span", "by", [...n.writers].map(([w, c]) => w + " ×" + c).join(", ")));
      const owned = [...n.owned].filter(o => wanted(o) && !path.has(o.id)).sort((a, b) => a.name < b.name ? -1 : 1);
      if (owned.length) {
        const inner = make("ul");
        inner.append(...owned.slice(0, limit).map(o => draw(o, new Set(path).add(o.id))));
        if (owned.length > limit) inner.append(make("li", "", owned.length - limit + " more"));
        item.append(inner);
      }
      return item;
    };
    list.append(...roots.slice(0, limit).map(n => draw(n, new Set([n.id]))));
    if (roots.length > limit) list.append(make("li", "", roots.length - limit + " more; filter to see them"));
    $("owners").replaceChildren(list);
  }

  function show(which) {
    for (const id of ["sequence", "owners"]) {
      $(id).hidden = id !== which;
      $("show-" + id).classList.toggle("chosen", id === which);
    }
    refresh();
  }

  // A live page's entries come as server-sent events, each a part of a score.
  function live(address) {
    const source = new EventSource(address);
    let due = false;
    source.onmessage = message => {
      const part = JSON.parse(message.data);
      const view = $("scroll"), atEnd = view.scrollTop + view.clientHeight >= view.scrollHeight - 3 * rowHeight;
      entries = entries.concat(part.entries || []);
      Object.assign(score, { gaps: part.gaps, unwatched: part.unwatched, dropped: part.dropped });
      if (entries.length > part.limit) entries = entries.slice(entries.length - part.limit);
      if (due) return;
      due = true;
      setTimeout(() => {
        due = false;
        refresh();
        document.body.dataset.received = entries.length;
        if (atEnd) { view.scrollTop = view.scrollHeight; drawRows(); }
      }, 50);
    };
    source.addEventListener("end", () => { source.close(); document.title += " (ended)"; });
  }

  for (const id of ["namespace", "kind", "writer", "leases", "events"]) $(id).addEventListener("change", refresh);
  $("find").addEventListener("input", refresh);
  $("filters").addEventListener("submit", e => e.preventDefault());
  $("clear").addEventListener("click", () => { only = null; refresh(); });
  $("scroll").addEventListener("scroll", drawRows);
  addEventListener("resize", drawRows);
  $("show-sequence").addEventListener("click", () => show("sequence"));
  $("show-owners").addEventListener("click", () => show("owners"));
  show(location.hash === "#owners" ? "owners" : "sequence");
  if (location.hash.startsWith("#entry-") && shown.length) choose(shown[Number(location.hash.slice(7))] || shown[0]);
  if (document.body.dataset.live) live(document.body.dataset.live);
})();
