// Runs before the first paint, so that no page flashes in the other theme.
try {
  const theme = localStorage.getItem("tidelog.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden: the theme is the system's then.
}
