/**
 * Light, dark, or as the system is. It runs before anything is drawn, so that no page flashes in the wrong one; that is
 * why it is no module. `new CustomEvent("theme", { detail: "dark" })` chooses, for every tab and for the next time;
 * `data-theme` of the document says what is chosen, nothing what the system is.
 */
(() => {
  const KEY = "bindery.theme";
  const CHOICES = ["light", "dark"];

  function apply(choice) {
    if (CHOICES.includes(choice)) document.documentElement.dataset.theme = choice;
    else delete document.documentElement.dataset.theme;
  }

  function kept() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser that keeps nothing
    }
  }

  document.addEventListener("theme", ({ detail }) => {
    apply(detail);
    try {
      localStorage.setItem(KEY, detail);
    } catch {
      // it holds for this page
    }
  });
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key === KEY) apply(newValue);
  });
  apply(kept());
})();
