"use strict";
// Reading needs none of this: keys, and pages that follow what is written.
(function () {
  function articles() { return Array.from(document.querySelectorAll("article")); }
  function step(by) {
    var all = articles();
    if (all.length === 0) { return; }
    var at = all.indexOf(document.activeElement);
    var next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
  function follow(rel) {
    var link = document.querySelector('a[rel="' + rel + '"]');
    if (link) { link.click(); }
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { return; }
    switch (event.key) {
      case "j": step(1); break;
      case "k": step(-1); break;
      case "[": follow("prev"); break;
      case "]": follow("next"); break;
      case "g": window.scrollTo(0, 0); break;
      case "G": window.scrollTo(0, document.body.scrollHeight); break;
      case "/":
        var input = document.querySelector("input[type=search]");
        if (input) { input.focus(); event.preventDefault(); }
        break;
    }
  });
  var live = document.body.getAttribute("data-live");
  if (!live || !window.fetch) { return; }
  // Makes an element like a fresh one and leaves what is the same in place, so that focus, selection, typed
  // text and open details stay.
  function same(old, fresh) {
    return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");
  }
  function update(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) { old.data = fresh.data; }
      return;
    }
    Array.from(old.attributes).forEach(function (attribute) {
      if (attribute.name !== "open" && !fresh.hasAttribute(attribute.name)) { old.removeAttribute(attribute.name); }
    });
    Array.from(fresh.attributes).forEach(function (attribute) {
      if (old.getAttribute(attribute.name) !== attribute.value) { old.setAttribute(attribute.name, attribute.value); }
    });
    var next = old.firstChild;
    Array.from(fresh.childNodes).forEach(function (child) {
      var found = next;
      while (found && !same(found, child)) { found = found.nextSibling; }
      // What is between has gone, unless a neighbor without a name only looks alike.
      if (found && (found === next || child.id)) {
        while (next !== found) { var gone = next; next = next.nextSibling; gone.remove(); }
        next = found.nextSibling;
        update(found, child);
      } else {
        old.insertBefore(document.importNode(child, true), next);
      }
    });
    while (next) { var last = next; next = next.nextSibling; last.remove(); }
  }
  function state(text) {
    var place = document.getElementById("live");
    if (place && place.textContent !== text) { place.textContent = text; }
  }
  function get(url) {
    return fetch(url, { credentials: "same-origin", cache: "no-store" }).then(function (answer) {
      if (!answer.ok) { throw new Error(answer.status); }
      return answer.text();
    });
  }
  function refresh(head) {
    return get(location.href).then(function (text) {
      var page = new DOMParser().parseFromString(text, "text/html");
      var fresh = page.querySelector("main");
      var main = document.querySelector("main");
      if (!fresh || !main) { return; }
      var atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 40;
      var isReading = main.contains(document.activeElement) || !getSelection().isCollapsed;
      update(main, fresh);
      seen = head;
      if (atEnd && !isReading) { window.scrollTo(0, document.body.scrollHeight); }
    });
  }
  // Short requests, one after the other: a browser keeps six connections to a server, so a stream for each
  // page would leave none for the seventh.
  var seen = new URLSearchParams(live.split("?")[1]).get("head");
  var timer = null;
  var isLooking = false;
  function look() {
    clearTimeout(timer);
    if (document.hidden || isLooking) { return; }
    isLooking = true;
    get(live).then(function (head) { return head === seen ? null : refresh(head); })
      .then(function () { state(""); }, function () { state("not up to date: the viewer does not answer"); })
      .then(function () { isLooking = false; timer = setTimeout(look, 500); });
  }
  document.addEventListener("visibilitychange", look);
  look();
})();
