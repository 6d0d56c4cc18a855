// A line chart over the last minutes. `series`: key, name, tone; `fill` or `thin`.
const SPAN = 300; // Seconds shown at most,
const SPAN_LEAST = 60; // and at least.
const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "text") made.textContent = value;
    else if (name === "tone") made.style.setProperty("--tone", `var(--${value})`);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// The next of 1, 2, 5, 10, … that is no less.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value * 0.9999) * power;
}

// Without zeros that say nothing.
function rounded(text) {
  return text.replace(/\.(0+)(?= |$)/, "");
}

class Chart {
  constructor(series, format, least) {
    Object.assign(this, { series, format, least, points: [], at: null });
    this.legend = element("div", { class: "legend" });
    this.values = series.map((one) => {
      const value = element("b");
      this.legend.append(element("span", { class: "key", tone: one.tone },
        element("i"), element("span", { class: "soft", text: one.name }), value));
      return value;
    });
    this.svg = shape("svg", { viewBox: "0 0 300 100", preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const y of [0, 50, 100]) this.svg.append(shape("line", { class: "grid", x1: 0, x2: 300, y1: y, y2: y }));
    this.lines = series.map((one) => {
      const area = one.fill ? shape("path", { class: "area" }) : null;
      const stroke = shape("path", { class: one.thin ? "stroke thin" : "stroke" });
      for (const path of [area, stroke]) {
        path?.style.setProperty("--tone", `var(--${one.tone})`);
        if (path) this.svg.append(path);
      }
      return { area, stroke };
    });
    this.cursor = shape("line", { class: "cursor", y1: 0, y2: 100, visibility: "hidden" });
    this.svg.append(this.cursor);
    this.top = element("span");
    this.middle = element("span");
    this.top.style.top = "0"; this.middle.style.top = "50%";
    this.since = element("em");
    this.plot = element("div", { class: "plot" }, this.svg, this.top, this.middle, this.since);
    const move = (event) => {
      const box = this.plot.getBoundingClientRect();
      this.at = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      this.read();
    };
    this.plot.addEventListener("pointermove", move);
    this.plot.addEventListener("pointerdown", move);
    this.plot.addEventListener("pointerleave", () => { this.at = null; this.read(); });
  }

  draw(points, now) {
    this.points = points; this.now = now;
    this.span = points.length ? Math.min(SPAN, Math.max(SPAN_LEAST, now - points[0].t)) : SPAN_LEAST;
    let most = this.least;
    for (const point of points) for (const { key } of this.series) most = Math.max(most, point[key] || 0);
    const top = ceiling(most);
    this.top.textContent = rounded(this.format(top));
    this.middle.textContent = rounded(this.format(top / 2));
    this.series.forEach(({ key }, index) => {
      let stroke = "", area = "", begun = null, last = null;
      const end = () => { if (begun !== null) area += `L${last} 100L${begun} 100Z`; begun = null; };
      for (const point of points) {
        const value = point[key];
        if (value == null) { end(); continue; }
        const x = (300 * (1 - (now - point.t) / this.span)).toFixed(2);
        const y = (100 * (1 - value / top)).toFixed(2);
        const step = `${begun === null ? "M" : "L"}${x} ${y}`;
        stroke += step; area += step;
        if (begun === null) begun = x;
        last = x;
      }
      end();
      const line = this.lines[index];
      line.stroke.setAttribute("d", stroke);
      line.area?.setAttribute("d", area);
    });
    this.read();
  }

  // The values under the pointer, else the newest.
  read() {
    const { points, at } = this;
    let point = points[points.length - 1];
    if (at !== null && points.length) {
      const t = this.now - this.span * (1 - at);
      point = points.reduce((best, other) => Math.abs(other.t - t) < Math.abs(best.t - t) ? other : best);
    }
    this.cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) { this.cursor.setAttribute("x1", 300 * at); this.cursor.setAttribute("x2", 300 * at); }
    const ago = at === null ? this.span : this.now - (point?.t ?? this.now);
    this.since.textContent = ago < 100 ? `${Math.round(ago)} s ago` : `${Math.round(ago / 60)} min ago`;
    this.series.forEach(({ key }, index) => {
      const value = point?.[key];
      this.values[index].textContent = value == null ? "–" : this.format(value);
    });
  }
}
