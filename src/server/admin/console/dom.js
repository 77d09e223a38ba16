// @ts-check
// Elements: made, found, and changed only where they differ, so that focus, selection and open parts stay.

/** @typedef {Node | string | number | null | undefined | false} Piece  what is not there is left out */
/** @typedef {Piece | Piece[] | (Piece | Piece[])[]} Pieces */

/**
 * The element with this id, which has to be there.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {{ new (): T }} kind
 * @returns {T}
 */
export function need(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`there is no #${id}`);
  return found;
}

/**
 * A new element with text nodes: `kind` is a tag with classes, such as `p.note`.
 * @param {string} kind
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes] those that are empty are left out
 * @param {Pieces[]} pieces
 */
export function h(kind, attributes = {}, ...pieces) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value || value === 0) element.setAttribute(name, String(value));
  }
  for (const piece of /** @type {Piece[]} */ (pieces.flat(2))) {
    if (piece || piece === 0) element.append(piece instanceof Node ? piece : String(piece));
  }
  return element;
}

/** @param {Node | undefined} node */
const idOf = (node) => (node instanceof Element ? node.id : "");

/**
 * Makes `old` like `fresh`.
 * @param {Node} old
 * @param {Node} fresh of the same kind
 */
export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (!(old instanceof Element && fresh instanceof Element)) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  fill(old, [...fresh.childNodes]);
}

/**
 * Gives an element these children. Those with ids stay the same elements when they move.
 * @param {Element} parent
 * @param {Node[]} wanted
 */
export function fill(parent, wanted) {
  wanted.forEach((fresh, at) => {
    const here = parent.childNodes[at];
    const known = idOf(fresh) ? [...parent.childNodes].find((node) => idOf(node) === idOf(fresh)) : here;
    if (known?.nodeName === fresh.nodeName && idOf(known) === idOf(fresh)) {
      if (known !== here) parent.insertBefore(known, here);
      morph(known, fresh);
    } else {
      parent.insertBefore(fresh, here ?? null);
    }
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild?.remove();
}
