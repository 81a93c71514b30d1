// The page: a header, a tab for each view, and the view itself, made when it is first looked at.
import { redrawAll } from "./canvas";
import { compareView } from "./compare";
import { h } from "./dom";
import { graphView } from "./graph";
import { memoryView } from "./memory";
import { operatorsView } from "./operators";
import { Comparison, loadComparison, loadProfile, Profile } from "./profile";
import { summaryView } from "./summary";
import { hide } from "./tooltip";
import { traceView } from "./trace";

interface Tab { id: string; title: string; make: () => HTMLElement }

function tabsOf(profile: Profile, comparison: Comparison | null): Tab[] {
  const tabs: Tab[] = [
    { id: "summary", title: "Summary", make: () => summaryView(profile) },
    { id: "trace", title: "Execution trace", make: () => traceView(profile) },
    { id: "memory", title: "Memory", make: () => memoryView(profile) },
    { id: "operators", title: "Operators", make: () => operatorsView(profile) },
    { id: "graph", title: "Graph", make: () => graphView(profile) },
  ];
  if (comparison) tabs.unshift({ id: "compare", title: "Comparison", make: () => compareView(comparison) });
  return tabs;
}

function tabList(tabs: Tab[], panels: HTMLElement): HTMLElement {
  const made = new Map<string, HTMLElement>();
  const list = h("div", { role: "tablist", "aria-label": "Views", class: "tabs" });
  const buttons = tabs.map((tab) => h("button", { role: "tab", type: "button", id: `tab-${tab.id}`,
    "aria-controls": `panel-${tab.id}`, onclick: () => open(tab.id) }, tab.title));
  for (const tab of tabs) {
    const panel = h("div", { role: "tabpanel", id: `panel-${tab.id}`, "aria-labelledby": `tab-${tab.id}`, hidden: true });
    made.set(tab.id, panel);
    panels.append(panel);
  }
  function open(id: string, focus = false): void {
    hide();
    tabs.forEach((tab, i) => {
      const isOpen = tab.id === id;
      const panel = made.get(tab.id)!;
      if (isOpen && panel.childElementCount === 0) panel.append(tab.make());
      panel.hidden = !isOpen;
      buttons[i].setAttribute("aria-selected", String(isOpen));
      buttons[i].tabIndex = isOpen ? 0 : -1;
      if (isOpen && focus) buttons[i].focus();
    });
    history.replaceState(null, "", `#${id}`);
  }
  const current = () => buttons.findIndex((button) => button.getAttribute("aria-selected") === "true");
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    open(tabs[(current() + step + tabs.length) % tabs.length].id, true);
  });
  const follow = () => {
    const id = location.hash.slice(1);
    open(tabs.some((tab) => tab.id === id) ? id : tabs[0].id);
  };
  addEventListener("hashchange", follow);
  list.append(...buttons);
  follow();
  return list;
}

// Colours follow the system until the button has been pressed.
function themeButton(): HTMLElement {
  const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
  let [isDark, isChosen] = [systemIsDark.matches, false];
  const button = h("button", { type: "button", class: "theme", onclick: () => {
    [isDark, isChosen] = [!isDark, true];
    update();
  } });
  const update = () => {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark ? "light" : "dark"} colours`);
    redrawAll();
  };
  systemIsDark.addEventListener("change", () => {
    if (isChosen) return;
    isDark = systemIsDark.matches;
    update();
  });
  update();
  return button;
}

function start(): void {
  const app = document.getElementById("app")!;
  const profile = loadProfile();
  if (!profile) {
    app.append(h("p", { class: "empty" }, "This page has no data. Make it with aspen-report from a profile.json."));
    return;
  }
  document.title = `${profile.run.model} – Aspen report`;
  const main = h("main", { id: "main" });
  const header = h("header", {},
    h("div", { class: "title" },
      h("h1", {}, profile.run.model),
      h("span", { class: "chip" }, profile.run.training ? "Training" : "Inference"),
      profile.run.complete ? null : h("span", { class: "chip warning" }, "Run did not end"),
      themeButton()),
    tabList(tabsOf(profile, loadComparison()), main));
  app.append(h("a", { href: "#main", class: "skip", onclick: (event: Event) => {
    event.preventDefault();
    (main.querySelector("[role=tabpanel]:not([hidden]) button, [role=tabpanel]:not([hidden]) [tabindex='0']") as
      HTMLElement | null)?.focus();
  } }, "Skip to content"), header, main);
  // Drawings know their width after the first frame and are painted in the second.
  const afterFrames = (frames: number, act: () => void): void => {
    requestAnimationFrame(() => (frames > 1 ? afterFrames(frames - 1, act) : act()));
  };
  afterFrames(3, () => performance.mark("report-drawn"));
}

start();
