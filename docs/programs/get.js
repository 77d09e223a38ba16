// Fetches JSON on a page of any site, and waits as `Retry-After` says. The browser revalidates by itself.
async function get(url) {
  for (let tries = 0; ; tries++) {
    const answer = await fetch(url);
    if (answer.ok) return answer.json();
    if (![429, 503].includes(answer.status) || tries === 5) throw new Error(`${answer.status}: ${await answer.text()}`);
    await new Promise((done) => setTimeout(done, 1000 * answer.headers.get("Retry-After")));
  }
}
