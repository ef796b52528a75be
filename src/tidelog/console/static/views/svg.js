/** SVG in place: elements are made once, and only what changed is written. */

const NAMESPACE = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag @param {Record<string, string|number>} [attributes]
 * @param {...(Node|string)} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return /** @type {SVGElement} */ (node);
}

/** @param {Element} node @param {string} name @param {string|number} value */
export function set(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/** @param {Element} node @param {string} text */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {SVGElement} node @param {number} x @param {number} y */
export function move(node, x, y) {
  node.style.transform = `translate(${x}px, ${y}px)`;
}

export const stillness = matchMedia("(prefers-reduced-motion: reduce)");
