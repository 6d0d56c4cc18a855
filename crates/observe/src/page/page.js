// The live page: snapshots come by server-sent events; rates and charts are made
// here, and kept over reloads and restarts of the server.
const $ = (id) => document.getElementById(id);
const STORE = "ctcp-history";

// Numbers as people read them.
function scaled(value, steps, base) {
  let index = 0;
  while (Math.abs(value) >= base * 0.9995 && index < steps.length - 1) { value /= base; index += 1; }
  const digits = value >= 100 || (index === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${steps[index]}`;
}
const rate = (bytes) => scaled(bytes * 8, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], 1000);
const size = (bytes) => scaled(bytes, ["B", "kB", "MB", "GB", "TB"], 1000);
const count = (value) => (value < 10000 ? Math.round(value).toString() : scaled(value, ["", "k", "M", "G"], 1000));
const millis = (s) => (s >= 1 ? `${s.toFixed(1)} s` : s >= 0.1 ? `${(s * 1e3).toFixed(0)} ms` : `${(s * 1e3).toFixed(1)} ms`);
const percent = (share) => `${(share * 100).toFixed(share >= 0.1 ? 0 : share >= 0.01 ? 1 : 2)} %`;
const packets = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
function span(s) {
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min` : `${Math.floor(s)} s`;
}

// A number with its name and, on demand, what it means.
function word(name) {
  const [title, meaning] = WORDS[name];
  const value = element("div", { class: "value", text: "–" });
  const box = element("div", { class: "metric", tabindex: "0", title: meaning },
    element("h3", { text: title }), value, element("p", { class: "desc", text: meaning }));
  explainable(box);
  return { box, set: (main, rest) => {
    value.textContent = main;
    if (rest) value.append(element("small", { text: ` ${rest}` }));
  } };
}

function explainable(box) {
  box.addEventListener("click", () => box.classList.toggle("open"));
  box.addEventListener("keydown", (event) => { if (event.key === "Enter") box.classList.toggle("open"); });
}

function charted(name, chart) {
  const [title, meaning] = WORDS[name];
  const head = element("div", { class: "metric", tabindex: "0", title: meaning },
    element("h3", { text: title }), element("p", { class: "desc", text: meaning }));
  explainable(head);
  return element("div", {}, head, chart.legend, chart.plot);
}

// What was seen, by subject: points with a time and values.
class History {
  constructor() {
    this.all = {};
    try {
      const kept = JSON.parse(sessionStorage.getItem(STORE));
      if (kept) { this.all = kept.all; this.instance = kept.instance; }
    } catch { /* then without */ }
    addEventListener("pagehide", () => {
      try { sessionStorage.setItem(STORE, JSON.stringify({ instance: this.instance, all: this.all })); } catch { /* too much: then without */ }
    });
  }
  of(subject) { return (this.all[subject] ||= []); }
  add(subject, point) {
    const points = this.of(subject);
    const last = points[points.length - 1];
    if (last && point.t - last.t > 4) points.push({ t: (point.t + last.t) / 2 });
    points.push(point);
    while (points.length && point.t - points[0].t > SPAN + 2) points.shift();
  }
  forget(now) {
    for (const [subject, points] of Object.entries(this.all)) {
      if (!points.length || now - points[points.length - 1].t > SPAN) delete this.all[subject];
    }
  }
}

const past = new History();
let before = null; // The last snapshot.
const memory = {}; // By connection: counters of the last minute.

// Growth of a counter a second since the last snapshot; null if it began anew.
function growth(now, then, seconds) {
  return then == null || seconds <= 0 || now < then ? null : (now - then) / seconds;
}

class PathCard {
  constructor() {
    this.chip = element("span", { class: "chip" });
    const [, meaning] = WORDS.state;
    const state = element("div", { class: "metric", tabindex: "0", title: meaning }, this.chip, element("p", { class: "desc", text: meaning }));
    explainable(state);
    this.name = element("h2");
    this.route = element("span", { class: "route soft" });
    this.charts = {
      rate: new Chart([{ key: "in", name: "in", tone: "down", fill: true },
        { key: "out", name: "out", tone: "up", fill: true },
        { key: "sent", name: "sent", tone: "sent", thin: true }], rate, 1250),
      rtt: new Chart([{ key: "rtt", name: "now", tone: "rtt", fill: true },
        { key: "base", name: "base", tone: "base", thin: true }], millis, 0.001),
      loss: new Chart([{ key: "lossIn", name: "in", tone: "in" },
        { key: "loss", name: "out", tone: "raw", fill: true },
        { key: "left", name: "left", tone: "left" }], percent, 0.01),
      window: new Chart([{ key: "tokens", name: "tokens", tone: "tokens", thin: true },
        { key: "flight", name: "in flight", tone: "flight", fill: true },
        { key: "queued", name: "queued", tone: "queue" }], packets, 10),
    };
    this.words = { congestion: word("congestion"), mtu: word("mtu"), ecn: word("ecn"), packets: word("packets") };
    this.box = element("div", { class: "path" },
      element("div", { class: "pathhead" }, this.name, state, this.route),
      element("div", { class: "charts" }, ...Object.entries(this.charts).map(([name, chart]) => charted(name, chart))),
      element("div", { class: "tiles" }, ...Object.values(this.words).map(({ box }) => box)));
  }
  draw(path, subject, now) {
    this.name.textContent = `Path ${path.id}${path.is_backup ? " (backup)" : ""}`;
    this.chip.textContent = path.state;
    this.chip.className = `chip ${{ active: "good", degraded: "warn", probing: "warn" }[path.state] || "bad"}`;
    this.route.textContent = `${path.local ? `${path.local} → ` : "→ "}${path.remote}`;
    this.words.congestion.set(path.congestion, path.phase.replaceAll("_", " "));
    this.words.mtu.set(`${path.mtu} B`);
    this.words.ecn.set(count(path.ecn_ce), path.ecn);
    this.words.packets.set(count(path.packets_lost), `of ${count(path.packets_sent)}`);
    for (const chart of Object.values(this.charts)) chart.draw(past.of(subject), now);
  }
}

class ConnectionCard {
  constructor(isOpen) {
    this.name = element("h2");
    this.about = element("span", { class: "soft" });
    this.paths = new Map();
    this.words = { blocks: word("blocks"), coded: word("coded"), used: word("used"), useless: word("useless"),
      repaired: word("repaired"), feedback: word("feedback"), order: word("order"), decode: word("decode"),
      waiting: word("waiting"), probes: word("probes"), dropped: word("dropped") };
    this.tiles = element("div", { class: "tiles" }, ...Object.values(this.words).map(({ box }) => box));
    this.box = element("details", { class: "card" }, element("summary", {}, this.name, this.about), this.tiles);
    this.box.open = isOpen;
  }
  draw(connection, recent, now) {
    this.name.textContent = connection.name || "peer";
    const paths = connection.paths.length;
    this.about.textContent = `${connection.peer.slice(0, 10)}… · up ${span(connection.age)} · ${connection.streams} stream${connection.streams === 1 ? "" : "s"} · ${paths} path${paths === 1 ? "" : "s"}`;
    const { sent, received } = connection;
    const data = sent.systematic + sent.coded;
    this.words.blocks.set(count(connection.blocks_sending), `/ ${count(connection.generations_receiving)}`);
    this.words.coded.set(count(sent.coded), data ? percent(sent.coded / data) : "");
    this.words.used.set(count(connection.coded_innovative), `of ${count(received.coded)}`);
    this.words.useless.set(count(connection.useless));
    this.words.repaired.set(count(connection.symbols_recovered + connection.datagrams_recovered));
    this.words.feedback.set(recent.left == null ? "–" : percent(recent.left));
    this.words.order.set(...recent.order);
    this.words.decode.set(...recent.decode);
    this.words.waiting.set(size(connection.bytes_to_send), `/ ${size(connection.bytes_to_read)}`);
    this.words.probes.set(count(connection.probe_timeouts));
    this.words.dropped.set(count(connection.dropped));
    const seen = new Set();
    for (const path of connection.paths) {
      seen.add(path.id);
      if (!this.paths.has(path.id)) this.paths.set(path.id, new PathCard());
      const card = this.paths.get(path.id);
      if (!card.box.isConnected) this.box.append(card.box);
      if (this.box.open) card.draw(path, `path ${connection.id} ${path.id}`, now);
    }
    for (const [id, card] of this.paths) if (!seen.has(id)) { card.box.remove(); this.paths.delete(id); }
  }
}

// The bucket bounds that half and 19 of 20 of the delays of the last minute keep.
function quantiles(delays, then) {
  const counts = delays.buckets.map(([bound, number], index) => [bound, number - (then?.buckets[index]?.[1] ?? 0)]);
  const total = counts.reduce((sum, [, number]) => sum + number, 0);
  if (total <= 0) return ["–", ""];
  const bound = (share) => {
    let seen = 0;
    for (const [limit, number] of counts) { seen += number; if (seen >= share * total) return limit == null ? "> 10 s" : `≤ ${rounded(millis(limit))}`; }
    return "";
  };
  return [bound(0.5), `95 %: ${bound(0.95)}`];
}

const cards = new Map();
const hero = new Chart([{ key: "down", name: "", tone: "down", fill: true }, { key: "up", name: "", tone: "up", fill: true }], rate, 12500);
const figures = { down: word("down"), up: word("up") };
const facts = { relayed: word("relayed"), accepted: word("accepted"), failed: word("failed"),
  refused: word("refused"), strangers: word("strangers"), buffers: word("buffers") };
let rows = null;

function build() {
  for (const [name, { box }] of Object.entries(figures)) {
    box.querySelector(".value").className = "value figure";
    box.querySelector("h3").replaceChildren(element("span", { class: "key", tone: name }, element("i"), WORDS[name][0]));
  }
  $("hero").className = "card";
  $("hero").append(element("div", { class: "figures" }, figures.down.box, figures.up.box), hero.plot);
  $("process").append(...Object.values(facts).map(({ box }) => box));
  const [title, meaning] = WORDS.streams;
  const head = element("div", { class: "metric", tabindex: "0", title: meaning },
    element("h2", { text: title }), element("p", { class: "desc", text: meaning }));
  explainable(head);
  rows = element("tbody");
  const heads = ["Target", "Client", "Down", "Up", "Rate", "Age"].map((text) => element("th", { text, class: ["Client", "Up"].includes(text) ? "wide" : "" }));
  $("streams").append(head, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), rows), element("p", { class: "empty" }));
  $("explain").addEventListener("click", () => {
    const isOn = document.body.classList.toggle("explain");
    $("explain").setAttribute("aria-pressed", isOn);
  });
}

function note(snapshot, now) {
  const seconds = before ? snapshot.uptime - before.uptime : 0;
  const { proxy } = snapshot;
  const total = { t: now, down: growth(proxy.bytes_down, before?.proxy.bytes_down, seconds), up: growth(proxy.bytes_up, before?.proxy.bytes_up, seconds) };
  past.add("total", total);
  figures.down.set(...rate(total.down || 0).split(" "));
  figures.up.set(...rate(total.up || 0).split(" "));
  for (const connection of snapshot.connections) {
    const last = before?.connections.find(({ id }) => id === connection.id);
    // Counters of a minute ago, for what is rare.
    const kept = (memory[connection.id] ||= []);
    kept.push({ t: now, feedback: connection.coded_on_feedback, data: connection.sent.systematic, order: connection.in_order_delay, decode: connection.decode_delay, paths: connection.paths });
    while (kept.length > 2 && now - kept[0].t > 60) kept.shift();
    const oldest = kept[0];
    const data = connection.sent.systematic - oldest.data;
    const recent = { left: data >= 50 ? (connection.coded_on_feedback - oldest.feedback) / data : null,
      order: quantiles(connection.in_order_delay, oldest === kept[kept.length - 1] ? null : oldest.order),
      decode: quantiles(connection.decode_delay, oldest === kept[kept.length - 1] ? null : oldest.decode) };
    connection.recent = recent;
    const few = kept[Math.max(0, kept.length - 10)];
    for (const path of connection.paths) {
      const then = last?.paths.find(({ id }) => id === path.id);
      const old = few.paths.find(({ id }) => id === path.id);
      const came = old ? path.packets_received - old.packets_received : 0;
      const missing = old ? Math.max(0, path.packets_missing - old.packets_missing) : 0;
      past.add(`path ${connection.id} ${path.id}`, { t: now,
        in: growth(path.bytes_useful, then?.bytes_useful, seconds),
        out: growth(path.bytes_delivered, then?.bytes_delivered, seconds),
        sent: growth(path.bytes_sent, then?.bytes_sent, seconds),
        rtt: path.srtt, base: path.rtt_min, loss: path.loss_rate,
        lossIn: came + missing > 20 ? missing / (came + missing) : null, left: recent.left,
        tokens: path.tokens, flight: path.in_flight, queued: path.queued });
    }
  }
}

function show(snapshot, now) {
  document.title = `${figures.down.box.querySelector(".value").textContent} · CTCP ${snapshot.role}`;
  $("role").textContent = snapshot.role;
  $("title").textContent = snapshot.title;
  $("uptime").textContent = `up ${span(snapshot.uptime)}`;
  $("version").textContent = `ctcp ${snapshot.version}, process ${snapshot.pid}`;
  hero.draw(past.of("total"), now);
  $("banner").hidden = snapshot.connections.length > 0;
  $("banner").textContent = snapshot.role === "server" ? "No client is connected." : "Not connected to the server; trying.";
  const seen = new Set();
  for (const connection of snapshot.connections) {
    seen.add(connection.id);
    if (!cards.has(connection.id)) {
      cards.set(connection.id, new ConnectionCard(cards.size < 4));
      $("connections").append(cards.get(connection.id).box);
    }
    cards.get(connection.id).draw(connection, connection.recent, now);
  }
  for (const [id, card] of cards) if (!seen.has(id)) { card.box.remove(); cards.delete(id); delete memory[id]; }
  showStreams(snapshot);
  const { proxy, socket } = snapshot;
  facts.relayed.set(size(proxy.bytes_down), `/ ${size(proxy.bytes_up)}`);
  facts.accepted.set(count(proxy.accepted), `${count(proxy.active)} open`);
  const failed = proxy.failed.reduce((sum, [, number]) => sum + number, 0);
  const most = [...proxy.failed].sort((a, b) => b[1] - a[1])[0];
  facts.failed.set(count(failed), most ? most[0].replaceAll("_", " ") : "");
  for (const name of ["refused", "strangers", "buffers"]) facts[name].box.hidden = !socket;
  if (socket) {
    facts.refused.set(count(socket.refused));
    facts.strangers.set(count(socket.unknown));
    facts.buffers.set(size(socket.receive_buffer_bytes), `/ ${size(socket.send_buffer_bytes)}`);
  }
}

function showStreams(snapshot) {
  const hasClients = snapshot.streams.some(({ client }) => client);
  const seconds = before ? snapshot.uptime - before.uptime : 0;
  const then = new Map(before?.streams.map((stream) => [stream.id, stream]));
  rows.replaceChildren(...snapshot.streams.slice(0, 100).map((stream) => {
    const old = then.get(stream.id);
    const moved = (growth(stream.bytes_down, old?.bytes_down, seconds) || 0) + (growth(stream.bytes_up, old?.bytes_up, seconds) || 0);
    return element("tr", {}, element("td", { text: stream.target }), element("td", { text: stream.client, class: "wide" }),
      element("td", { text: size(stream.bytes_down) }), element("td", { text: size(stream.bytes_up), class: "wide" }),
      element("td", { text: moved ? rate(moved) : "–" }), element("td", { text: span(stream.age) }));
  }));
  const table = rows.parentNode;
  table.hidden = !snapshot.streams.length;
  for (const row of table.rows) row.cells[1].hidden = !hasClients;
  const left = snapshot.streams_total - Math.min(100, snapshot.streams.length);
  $("streams").querySelector(".empty").textContent = !snapshot.streams.length ? "Nothing is relayed right now." : left > 0 ? `and ${left} more` : "";
}

function link(state, text) {
  $("link").className = `chip ${state}`;
  $("link").textContent = text;
}

function start() {
  build();
  const events = new EventSource("events");
  events.onmessage = ({ data }) => {
    const snapshot = JSON.parse(data);
    const now = Date.now() / 1000;
    if (past.instance !== snapshot.instance) {
      // Another process: its connections are others, and so are their pasts.
      before = null;
      past.instance = snapshot.instance;
      for (const [id, card] of cards) { card.box.remove(); cards.delete(id); delete memory[id]; }
      for (const subject of Object.keys(past.all)) if (subject !== "total") delete past.all[subject];
    }
    past.forget(now);
    note(snapshot, now);
    if (!document.hidden) show(snapshot, now);
    before = snapshot;
    link("good", "live");
  };
  events.onerror = () => {
    link("bad", "no answer");
    // Browsers give up after some errors; this does not.
    if (events.readyState === EventSource.CLOSED) { events.close(); setTimeout(restart, 1500); }
  };
}

function restart() {
  fetch("api/status", { cache: "no-store" }).then((answer) => { if (answer.ok) location.reload(); else setTimeout(restart, 1500); },
    () => setTimeout(restart, 1500));
}

start();
