// A plot of one number over time, and a picture of a two-dimensional array. Both hold a fixed amount of memory.

const MOST = 600;

export class Plot {
  constructor(label) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "plot";
    this.canvas.setAttribute("role", "img");
    this.label = label;
    this.times = new Float64Array(MOST);
    this.values = new Float64Array(MOST);
    this.count = 0;
    this.due = false;
    this.varies = false;
    new ResizeObserver(() => this.later()).observe(this.canvas);
  }

  add(points) {
    for (const [time, value] of points) {
      const at = this.count % MOST;
      this.times[at] = time;
      this.values[at] = value;
      this.varies ||= value !== this.values[0];
      this.count += 1;
    }
    this.later();
  }

  clear() {
    this.count = 0;
    this.varies = false;
  }

  later() {
    if (!this.due) {
      this.due = true;
      requestAnimationFrame(() => this.draw());
    }
  }

  draw() {
    this.due = false;
    const canvas = this.canvas;
    const width = canvas.clientWidth, height = canvas.clientHeight, scale = window.devicePixelRatio || 1;
    const length = Math.min(this.count, MOST);
    if (!width || !length) return;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    let low = Infinity, high = -Infinity;
    for (let each = 0; each < length; each += 1) {
      low = Math.min(low, this.values[each]);
      high = Math.max(high, this.values[each]);
    }
    const start = this.count - length;
    const first = this.times[start % MOST], last = this.times[(this.count - 1) % MOST];
    const style = getComputedStyle(canvas);
    const draw = canvas.getContext("2d");
    draw.setTransform(scale, 0, 0, scale, 0, 0);
    draw.clearRect(0, 0, width, height);
    draw.fillStyle = draw.strokeStyle = style.color;
    draw.font = "12px system-ui, sans-serif";
    draw.fillText(high.toPrecision(4), 2, 11);
    draw.fillText(low.toPrecision(4), 2, height - 3);
    const span = Math.max(last - first, 1e-9), spread = Math.max(high - low, 1e-12);
    draw.strokeStyle = style.getPropertyValue("--accent");
    draw.lineWidth = 1.5;
    draw.beginPath();
    for (let each = 0; each < length; each += 1) {
      const at = (start + each) % MOST;
      const x = 60 + ((width - 66) * (this.times[at] - first)) / span;
      const y = high === low ? height / 2 : height - 8 - ((height - 20) * (this.values[at] - low)) / spread;
      if (each) draw.lineTo(x, y);
      else draw.moveTo(x, y);
    }
    draw.stroke();
    const text = `${this.label}: ${length} values in ${span.toFixed(0)} s, ${low} to ${high}`;
    if (canvas.getAttribute("aria-label") !== text) canvas.setAttribute("aria-label", text);
  }
}

export class Picture {
  constructor(label) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "image";
    this.canvas.setAttribute("role", "img");
    this.label = label;
  }

  show(image) {
    const grey = atob(image.grey);
    this.canvas.width = image.width;
    this.canvas.height = image.height;
    const draw = this.canvas.getContext("2d");
    const pixels = draw.createImageData(image.width, image.height);
    for (let each = 0; each < grey.length; each += 1) {
      const value = grey.charCodeAt(each);
      pixels.data.set([value, value, value, 255], 4 * each);
    }
    draw.putImageData(pixels, 0, 0);
    const text = `${this.label}: ${image.shape.join(" x ")}, ${image.low} to ${image.high}`;
    this.canvas.setAttribute("aria-label", text);
    this.canvas.title = text;
  }
}
