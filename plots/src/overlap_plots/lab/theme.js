// SPDX-License-Identifier: Apache-2.0
//
// Light or dark: the system's choice until the button makes another; kept where the browser lets a file keep something.

export function themeButton(theme) {
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark";
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  try {
    const kept = localStorage.getItem("overlapbench-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch {
    // A browser that keeps nothing for files: the system's choice holds.
  }
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("overlapbench-theme", document.documentElement.dataset.theme);
    } catch {
      // As above: the choice lasts as long as the page.
    }
    showTheme();
  });
  systemDark.addEventListener("change", showTheme);
  showTheme();
}
