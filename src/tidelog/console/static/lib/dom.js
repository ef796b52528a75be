// Elements as plain values, and a patch that changes the page in place.
//
//   render(root, h("button", {class: "primary", onclick: save}, "Save"));
//
// - Children that are null, true or false keep their place, so what stands after them keeps its focus.
// - `key` follows an element when its siblings come and go.
// - `style` is an object: the security policy refuses style attributes.
// - `ref` is called with the element once it is in the page.
// - `opaque` leaves the children of an element to somebody else.

/** @typedef {{tag: string, key?: any, props: Record<string, any>, children: Child[]}} Element_ */
/** @typedef {Element_ | string} Child */
/** @typedef {Child | number | boolean | null | undefined | Nested[]} Nested */

const SVG = "http://www.w3.org/2000/svg";
const OURS = new Set(["key", "ref", "opaque"]);
/** What a person changes too: the attribute would only be the start value. */
const LIVE = new Set(["value", "checked", "selected", "indeterminate"]);
/** What was drawn, beside the node that shows it. @type {WeakMap<Node, Child>} */
const drawn = new WeakMap();
/** Who wants to know that its element is in the page, told when all is drawn. */
const arrived = [];

/**
 * @param {string | ((props: any) => any)} tag
 * @param {Record<string, any> | null} [props]
 * @param {...Nested} children
 * @returns {any}
 */
export function h(tag, props, ...children) {
  if (typeof tag === "function") return tag({ ...props, children });
  return { tag, key: props?.key, props: props ?? {}, children: flat(children, []) };
}

function flat(nested, out) {
  for (const child of nested) {
    if (Array.isArray(child)) flat(child, out);
    else if (child === null || child === undefined || typeof child === "boolean") out.push("");
    else out.push(typeof child === "object" ? child : String(child));
  }
  return out;
}

/**
 * Makes the children of an element look like these.
 * @param {Element} root
 * @param {...Nested} children
 */
export function render(root, ...children) {
  patchChildren(root, flat(children, []));
  for (const [ref, node] of arrived.splice(0)) ref(node);
}

function patchChildren(parent, children) {
  const { keyed, loose } = sorted(parent);
  let next = 0;
  const reused = children.map((child) => {
    if (typeof child !== "string" && child.key !== undefined) {
      const node = keyed.get(child.key);
      if (!node || !alike(node, child)) return null;
      keyed.delete(child.key);
      return node;
    }
    // A place keeps its node as long as the kind stays; else what stood there is passed over.
    return next < loose.length && alike(loose[next], child) ? loose[next++] : (next++, null);
  });
  const kept = new Set(reused);
  for (const node of [...parent.childNodes]) if (!kept.has(node)) node.remove();
  let cursor = parent.firstChild;
  children.forEach((child, index) => {
    const found = reused[index];
    const node = found ?? create(child, parent);
    if (node === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(node, cursor);
    if (found) patch(found, child);
    else if (typeof child !== "string" && child.props.ref) arrived.push([child.props.ref, node]);
  });
}

function sorted(parent) {
  const keyed = new Map();
  const loose = [];
  for (const node of parent.childNodes) {
    const child = drawn.get(node);
    if (child && typeof child !== "string" && child.key !== undefined) keyed.set(child.key, node);
    else loose.push(node);
  }
  return { keyed, loose };
}

function alike(node, child) {
  const before = drawn.get(node);
  if (before === undefined) return false;
  if (typeof child === "string" || typeof before === "string") return typeof child === typeof before;
  return child.tag === before.tag && child.key === before.key;
}

function create(child, parent) {
  if (typeof child === "string") {
    const text = document.createTextNode(child);
    drawn.set(text, child);
    return text;
  }
  const inSvg = child.tag === "svg" || (parent.namespaceURI === SVG && parent.tagName !== "foreignObject");
  const node = inSvg ? document.createElementNS(SVG, child.tag) : document.createElement(child.tag);
  drawn.set(node, child);
  // Children first: a select takes its value only when it has its options.
  if (!child.props.opaque) patchChildren(node, child.children);
  for (const name in child.props) setProp(node, name, child.props[name], undefined);
  return node;
}

function patch(node, child) {
  const before = drawn.get(node);
  if (before === child) return;
  drawn.set(node, child);
  if (typeof child === "string") {
    if (before !== child) node.data = child;
    return;
  }
  const old = before.props;
  if (!child.props.opaque) patchChildren(node, child.children);
  for (const name in old) if (!(name in child.props)) setProp(node, name, undefined, old[name]);
  for (const name in child.props) setProp(node, name, child.props[name], old[name]);
}

function setProp(node, name, value, old) {
  if (OURS.has(name)) return;
  if (LIVE.has(name)) {
    if (value !== undefined && node[name] !== value) node[name] = value;
  } else if (value === old) {
    return;
  } else if (name.startsWith("on")) {
    node[name] = value ?? null;
  } else if (name === "style") {
    for (const rule in old) if (!value || !(rule in value)) node.style.removeProperty(rule);
    for (const rule in value) node.style.setProperty(rule, value[rule]);
  } else if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
  }
}
