"use strict";
// Reading needs none of this: keys, copying, filters, the outline, and pages that follow what is written.
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
  function get(url) {
    return fetch(url, { credentials: "same-origin", cache: "no-store" }).then(function (answer) {
      if (!answer.ok) { throw new Error(answer.status); }
      return answer.text();
    });
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
      case "o":
        var own = document.activeElement.closest && document.activeElement.closest("article");
        if (own) {
          var folds = Array.from(own.querySelectorAll("details"));
          var isOpen = folds.some(function (fold) { return fold.open; });
          folds.forEach(function (fold) { fold.open = !isOpen; });
        }
        break;
      case "?":
        var dialog = document.getElementById("keys");
        if (dialog) { if (dialog.open) { dialog.close(); } else { dialog.showModal(); } }
        break;
      case "/":
        var input = document.querySelector("main input[type=search]") || document.querySelector("input[type=search]");
        if (input) { input.focus(); event.preventDefault(); }
        break;
    }
  });
  // A link to a text copies it; without a clipboard it is followed.
  document.addEventListener("click", function (event) {
    var link = event.target.closest && event.target.closest("a.copy");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !navigator.clipboard || !window.fetch) { return; }
    event.preventDefault();
    get(link.href).then(function (text) { return navigator.clipboard.writeText(text); })
      .then(function () { link.textContent = "copied"; }, function () { location.href = link.href; })
      .then(function () { setTimeout(function () { link.textContent = "copy"; }, 1500); });
  });
  // A message that the address names is shown unfolded.
  function unfold() {
    var target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (var fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details")) { fold.open = true; }
    if (target) { target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", unfold);
  unfold();
  // The outline marks the last of its entries above the middle of the window.
  var isPlanned = false;
  function mark() {
    isPlanned = false;
    var current = null;
    document.querySelectorAll(".outline a").forEach(function (link) {
      var place = document.getElementById(link.hash.slice(1));
      if (place && place.getBoundingClientRect().top < window.innerHeight / 2) { current = link.parentElement; }
    });
    var marked = document.querySelector(".outline .current");
    if (marked === current) { return; }
    if (marked) { marked.classList.remove("current"); }
    if (!current) { return; }
    current.classList.add("current");
    var list = current.closest(".outline");
    list.scrollTop = current.offsetTop - list.clientHeight / 2;
  }
  function plan() { if (!isPlanned && document.querySelector(".outline")) { isPlanned = true; requestAnimationFrame(mark); } }
  window.addEventListener("scroll", plan, { passive: true });
  plan();
  // Rows of the table of sessions are filtered while somebody types, with all words in any order; after a
  // pause the server filters all sessions, also those of other pages.
  var filter = document.querySelector("input[data-filters]");
  if (filter) {
    filter.addEventListener("input", function () {
      var words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      var shown = 0;
      document.querySelectorAll("tbody").forEach(function (group) {
        var any = false;
        group.querySelectorAll("tr:not(.group)").forEach(function (row) {
          var text = row.textContent.toLowerCase();
          row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
          if (!row.hidden) { any = true; shown += 1; }
        });
        group.hidden = !any;
      });
      var count = document.getElementById("shown");
      if (count) { count.textContent = words.length ? shown + " shown" : ""; }
    });
    var pause = null;
    var search = function () {
      history.replaceState(null, "", "/?" + new URLSearchParams(new FormData(filter.form)));
      refresh(seen).then(null, lost);
    };
    if (window.fetch) {
      filter.form.addEventListener("input", function () { clearTimeout(pause); pause = setTimeout(search, 300); });
    }
  }
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
  function lost() { state("not up to date: the viewer does not answer"); }
  function state(text) {
    var place = document.getElementById("live");
    if (place && place.textContent !== text) { place.textContent = text; }
  }
  function refresh(head) {
    var url = location.href;
    return get(url).then(function (text) {
      if (url !== location.href) { return; }
      var page = new DOMParser().parseFromString(text, "text/html");
      var fresh = page.querySelector("main");
      var main = document.querySelector("main");
      if (!fresh || !main) { return; }
      var atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 40;
      var isReading = main.contains(document.activeElement) || !getSelection().isCollapsed;
      update(main, fresh);
      seen = head;
      if (atEnd && !isReading) { window.scrollTo(0, document.body.scrollHeight); }
      plan();
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
      .then(function () { state(""); }, lost)
      .then(function () { isLooking = false; timer = setTimeout(look, 500); });
  }
  document.addEventListener("visibilitychange", look);
  look();
})();
