// Talking to the server.

/** An answer that is not a success. `status` 0: no answer at all. */
export class Refused extends Error {
  /** @param {number} status @param {string} reason */
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

const PATIENCE = 8000; // milliseconds without an answer that count as none

/**
 * @param {string} path
 * @param {unknown} [body] sent as JSON with POST; without one it is a GET
 * @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, body, options = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
      ...options,
    });
  } catch {
    throw new Refused(0, "the studio does not answer");
  }
  const answer = await response.json().catch(() => ({ reason: "the answer was not understood" }));
  if (!response.ok) throw new Refused(response.status, answer.reason ?? `status ${response.status}`);
  return answer;
}
