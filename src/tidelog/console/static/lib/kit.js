// What pages are made of, to be had from one place.

export * from "./dom.js";
export * from "./fetched.js";
export * from "./format.js";
export * from "./signal.js";
export * from "./tables.js";
export * from "./widgets.js";
