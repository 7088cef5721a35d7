// Light or dark: the system's choice until the user makes one.

export function startTheme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  let chosen = null;
  try {
    chosen = localStorage.getItem("reflex-theme");
  } catch {
    // Storage may be switched off.
  }
  const apply = () => {
    const theme = chosen ?? (system.matches ? "dark" : "light");
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
  };
  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("reflex-theme", chosen);
    } catch {
      // As above.
    }
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
