// Which module shows which address.

/** @typedef {{pattern: RegExp, names: string[], module: string, section: string}} Route */

/** Address, module, and the entry of the navigation that is lit. */
const TABLE = [
  ["/", "./pages/overview.js", "/"],
  ["/topics", "./pages/topics.js", "/topics"],
  ["/topics/:name", "./pages/topics.js", "/topics"],
  ["/topics/:name/records", "./pages/records.js", "/topics"],
  ["/p/:name", "./views/partition.js", "/topics"],
  ["/timeline", "./views/timeline.js", "/timeline"],
  ["/groups", "./pages/groups.js", "/groups"],
  ["/groups/:name", "./pages/groups.js", "/groups"],
  ["/brokers", "./pages/brokers.js", "/brokers"],
  ["/b/:id", "./pages/brokers.js", "/brokers"],
  ["/controller", "./pages/controller.js", "/controller"],
  ["/lab", "./views/lab.js", "/lab"],
  ["/lab/sim", "./views/lab.js", "/lab"],
  ["/lab/:story", "./views/lab.js", "/lab"],
  ["/chaos", "./pages/chaos.js", "/chaos"],
  ["/metrics-view", "./pages/metrics.js", "/metrics-view"],
  ["/login", "./pages/login.js", ""],
  ["/help", "./pages/help.js", "/help"],
];

const ROUTES = TABLE.map(([path, module, section]) => {
  const names = [];
  const source = path.replace(/:(\w+)/g, (_, name) => {
    names.push(name);
    return "([^/]+)";
  });
  return { pattern: new RegExp(`^${source}/?$`), names, module, section };
});

/** An address that is not even text (`%ff`) has no page either. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string} pathname */
export function match(pathname) {
  for (const { pattern, names, module, section } of ROUTES) {
    const found = pattern.exec(pathname);
    if (!found) continue;
    const params = {};
    names.forEach((name, index) => { params[name] = decoded(found[index + 1]); });
    return { module, section, params };
  }
  return null;
}
