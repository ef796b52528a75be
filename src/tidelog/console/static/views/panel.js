/** A card whose content keeps off its edges. */

import { h } from "../lib/dom.js";
import { Card } from "../lib/widgets.js";

/** @param {any} props */
export const Panel = ({ children, ...more }) =>
  h(Card, more, h("div", { class: more.title ? "card-body" : "card-body top" }, children));
