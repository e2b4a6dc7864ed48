/* An error message that is pasted into the search has words that no page has: paths, names, numbers. Sphinx lists the pages
   that have all words of a query, so it would find nothing. Here the query is compared with each message of docs/errors by
   the words that both have, rare ones counting more, and the entries of the nearest ones come first. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined" || typeof errorMessages === "undefined") return;

  const LEAST = 0.35; // of the words of message and query
  const MOST = 5; // entries
  const wordsOf = (text) => new Set(text.toLowerCase().match(/[a-z_][a-z_]+/g) || []);

  const messages = [];
  const uses = new Map();
  for (const [page, heading, id, lines] of errorMessages) {
    for (const text of [heading, ...lines]) {
      const words = wordsOf(text);
      messages.push({ page, heading, id, text, words });
      words.forEach((word) => uses.set(word, (uses.get(word) || 0) + 1));
    }
  }
  const weight = (words) => {
    let sum = 0;
    words.forEach((word) => (sum += Math.log((messages.length + 1) / (uses.get(word) || messages.length))));
    return sum;
  };

  const nearest = (query) => {
    const asked = new Set([...wordsOf(query)].filter((word) => uses.has(word)));
    const found = new Map();
    for (const message of messages) {
      const shared = new Set([...message.words].filter((word) => asked.has(word)));
      if (shared.size < 2) continue;
      const likeness = weight(shared) / Math.sqrt(weight(message.words) * weight(asked));
      const key = `${message.page}#${message.id}`;
      if (likeness >= LEAST && likeness > (found.get(key)?.likeness || 0)) found.set(key, { ...message, likeness });
    }
    return [...found.values()].sort((a, b) => b.likeness - a.likeness).slice(0, MOST);
  };

  let query = "";
  const parse = Search._parseQuery;
  Search._parseQuery = (text) => {
    query = text;
    return parse(text);
  };
  const search = Search.performTermsSearch;
  Search.performTermsSearch = (terms, excluded) => {
    const { docnames, filenames, titles } = Search._index;
    const results = nearest(query).map(({ page, heading, id, text, likeness }) => {
      const file = docnames.indexOf(page);
      const shown = text === heading ? null : text.length > 160 ? `${text.slice(0, 160)}…` : text;
      const score = 100 + Math.round(100 * likeness);
      return [page, `${titles[file]} > ${heading}`, `#${id}`, shown, score, filenames[file], SearchResultKind.text];
    });
    return [...results, ...search(terms, excluded)];
  };
});
