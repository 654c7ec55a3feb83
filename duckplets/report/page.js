"use strict";
// Search, sort and turn pages. Without this script the page shows all rows.
const data = JSON.parse(document.getElementById("data").textContent);

const made = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// Show the items with the search words, one page at a time.
const leafing = (box, parent, items, each, sorts) => {
  let at = 0;
  let order = [...items];
  const texts = new Map(items.map((item) => [item, item.textContent.toLowerCase()]));
  const search = made("input", "", { type: "search", placeholder: "Search", "aria-label": "Search" });
  const back = made("button", "Back", { type: "button" });
  const next = made("button", "Next", { type: "button" });
  const status = made("span", "", { role: "status" });
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = order.filter((item) => words.every((word) => texts.get(item).includes(word)));
    at = Math.max(0, Math.min(at, each * Math.ceil(found.length / each - 1)));
    const seen = new Set(found.slice(at, at + each));
    for (const item of items) item.hidden = !seen.has(item);
    back.disabled = at === 0;
    next.disabled = at + each >= found.length;
    status.textContent = found.length ? `${at + 1} to ${at + seen.size} of ${found.length}` : "none";
  };
  search.addEventListener("input", () => { at = 0; show(); });
  back.addEventListener("click", () => { at -= each; show(); });
  next.addEventListener("click", () => { at += each; show(); });
  const bar = made("div", "", { class: "leaf" });
  bar.append(search, ...sorts, back, next, status);
  box.before(bar);
  show();
  addEventListener("beforeprint", () => { for (const item of items) item.hidden = false; });
  addEventListener("afterprint", show);
  return (by, down) => {
    order.sort((a, b) => (down ? -1 : 1) * compared(by(a), by(b)));
    parent.append(...order);
    at = 0;
    show();
  };
};

const compared = (a, b) =>
  typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const items = [...body.rows];
  if (items.length < 2) continue;
  const heads = [...table.tHead.rows[0].cells];
  const values = (row, number) => {
    const cell = row.cells[number];
    return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
  };
  let sorted = (by, down) => {
    items.sort((a, b) => (down ? -1 : 1) * compared(by(a), by(b)));
    body.append(...items);
  };
  if (items.length > 25) sorted = leafing(table.parentElement, body, items, 25, []);
  heads.forEach((head, number) => {
    const button = made("button", head.textContent, { type: "button" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sorted((row) => values(row, number), down);
    });
  });
}

for (const cards of document.querySelectorAll(".cards")) {
  const items = [...cards.children];
  if (items.length <= 5) continue;
  const select = made("select", "", { "aria-label": "Sort by" });
  for (const name of ["position", "recipe", "source"]) select.append(made("option", `by ${name}`, { value: name }));
  const sorted = leafing(cards, cards, items, 5, [select]);
  const of = (item) => (select.value === "position" ? Number(item.dataset.position) : item.dataset[select.value]);
  select.addEventListener("change", () => sorted(of, false));
}

for (const box of document.querySelectorAll(".table")) {
  const { made_by: text } = data.sections[box.dataset.section].tables[box.dataset.table];
  const code = box.querySelector(".made pre");
  const button = made("button", "Copy", { type: "button" });
  const status = made("span", "", { role: "status" });
  const bar = made("div", "", { class: "leaf" });
  bar.append(button, status);
  code.before(bar);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      status.textContent = "selected";
    }
  });
}

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not(.made)")) details.open = true;
});
