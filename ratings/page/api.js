// @ts-check
/** Requests to the study's server. The code travels in a header, never in an address. */

const TIMEOUT_MS = 30000;

/** An answer that says no, or none at all (status 0). */
export class Failed extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} code
 * @param {string} path
 * @param {unknown} [body] sent as JSON by POST; without it the request is a GET
 * @returns {Promise<Response>} an answer that says yes; raises Failed
 */
export async function ask(code, path, body) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), TIMEOUT_MS);
  /** @type {Record<string, string>} */
  const headers = { "x-study-code": code };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal: stop.signal,
    });
  } catch {
    throw new Failed(0, "The server cannot be reached.");
  } finally {
    clearTimeout(timer);
  }
  if (response.ok) return response;
  let words = `The server answered ${response.status}.`;
  try {
    words = (await response.json()).error || words;
  } catch {
    // a proxy's page: the number has to do
  }
  throw new Failed(response.status, words);
}

/** @param {string} code @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export async function askJson(code, path, body) {
  const response = await ask(code, path, body);
  try {
    return await response.json();
  } catch {
    throw new Failed(response.status, "The server's answer was cut off.");
  }
}
