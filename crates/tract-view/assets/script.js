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
  if (!live || !window.EventSource) { return; }
  var source = new EventSource(live);
  source.addEventListener("head", function () {
    fetch(location.href, { credentials: "same-origin" }).then(function (answer) { return answer.text(); }).then(function (text) {
      var fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
      var main = document.querySelector("main");
      if (!fresh || !main) { return; }
      var open = Array.from(main.querySelectorAll("details[open][id]")).map(function (element) { return element.id; });
      var atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 40;
      main.replaceWith(fresh);
      open.forEach(function (id) { var element = document.getElementById(id); if (element) { element.open = true; } });
      if (atEnd) { window.scrollTo(0, document.body.scrollHeight); }
    });
  });
})();
