// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });
const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

/** `12,408`; what is not known is a dash. */
export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** `12.4K` */
export function brief(value) {
  return value === null || value === undefined ? "–" : short.format(value);
}

/** `1 broker`, `3 brokers` */
export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `1.4 MB` */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** `5,000/s` */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  return `${value > 0 && value < 10 ? value.toFixed(1) : count(Math.round(value))}/s`;
}

/** `1.2 MB/s` */
export function byteRate(value) {
  return value === null || value === undefined ? "–" : `${bytes(value)}/s`;
}

/** `12 s`, `4 min`, `3 h 10 min` */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

/** `12:04:07.310`, in the time zone of the reader */
export function clock(wallMs, millis = true) {
  const moment = new Date(wallMs);
  const two = (part) => String(part).padStart(2, "0");
  const time = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
  return millis ? `${time}.${String(moment.getMilliseconds()).padStart(3, "0")}` : time;
}

/** `2026-11-18 12:04:07.310` */
export function moment(wallMs) {
  if (!wallMs || wallMs < 0) return "–";
  const day = new Date(wallMs);
  const two = (part) => String(part).padStart(2, "0");
  const date = `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
  return `${date} ${clock(wallMs)}`;
}

/** `3,2` or `nobody` */
export function ids(nodes) {
  return nodes?.length ? nodes.join(",") : "nobody";
}

/** `33 %` */
export function percent(part, all) {
  return all ? `${Math.round((100 * part) / all)} %` : "–";
}
