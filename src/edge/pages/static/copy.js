// @ts-check
// Shows the button beside every text that a page offers to copy. Without it there is none, and the text can be selected.

for (const button of document.querySelectorAll("button.copy")) {
  const copied = button instanceof HTMLButtonElement && document.getElementById(button.dataset.copies ?? "");
  if (!copied) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(copied.textContent ?? "");
      button.textContent = "Copied";
    } catch {
      // Without TLS browsers give no clipboard: the text is selected instead.
      window.getSelection()?.selectAllChildren(copied);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
