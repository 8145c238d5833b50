// The interface in three languages. `show` fills the elements with data-text, data-label and data-placeholder.

const TEXTS = {
  en: {
    interface: "Interface", from: "From", into: "Into", model: "Model", compare: "Compare with", key: "API key",
    settings: "Languages and models", text: "Text", translation: "Translation", type: "Type or paste text",
    copy: "Copy", copied: "Copied.", document: "Document", choose: "Translate a document:", history: "History",
    private: "It is kept in this browser only.", clear: "Delete the history", choices: "Other words",
    own: "Another word:", continue: "Continue", close: "Close", auto: "detect", none: "no other",
    alternatives: "Alternatives", attention: "Attention", translating: "Translating …", done: "Translated.",
    nothing: "No other word is probable here.", detected: "detected: {0}", count: "{0} of {1} characters",
    offline: "The server does not answer. The text is translated when it answers again.",
    uploading: "Sending …", download: "Download {0}", sentence: "Source:",
    terms: "Terms", "terms-help": "One per line: term = translation. A term alone stays as it is.",
    protect: "Keep tags, addresses and placeholders such as {name}", certainty: "{0} % certain",
    confidence: "Confidence {0} % · expected chrF {1}",
    legend: "Underlined words are less certain: dotted below 80 %, wavy below 50 %.",
    hint: "Choose a word of the translation to see what else could stand there. Arrow keys move between words.",
  },
  de: {
    interface: "Oberfläche", from: "Aus", into: "In", model: "Modell", compare: "Vergleichen mit", key: "API-Schlüssel",
    settings: "Sprachen und Modelle", text: "Text", translation: "Übersetzung", type: "Text eingeben oder einfügen",
    copy: "Kopieren", copied: "Kopiert.", document: "Dokument", choose: "Ein Dokument übersetzen:", history: "Verlauf",
    private: "Er bleibt in diesem Browser.", clear: "Verlauf löschen", choices: "Andere Wörter",
    own: "Anderes Wort:", continue: "Fortsetzen", close: "Schließen", auto: "erkennen", none: "keinem",
    alternatives: "Alternativen", attention: "Aufmerksamkeit", translating: "Wird übersetzt …", done: "Übersetzt.",
    nothing: "Kein anderes Wort ist hier wahrscheinlich.", detected: "erkannt: {0}", count: "{0} von {1} Zeichen",
    offline: "Der Server antwortet nicht. Der Text wird übersetzt, sobald er wieder antwortet.",
    uploading: "Wird gesendet …", download: "{0} herunterladen", sentence: "Quelle:",
    terms: "Fachwörter", "terms-help": "Eines pro Zeile: Wort = Übersetzung. Ein Wort allein bleibt, wie es ist.",
    protect: "Tags, Adressen und Platzhalter wie {name} beibehalten", certainty: "zu {0} % sicher",
    confidence: "Konfidenz {0} % · erwartetes chrF {1}",
    legend: "Unterstrichene Wörter sind weniger sicher: gepunktet unter 80 %, gewellt unter 50 %.",
    hint: "Ein Wort der Übersetzung wählen, um zu sehen, was dort sonst stehen könnte. Pfeiltasten wechseln das Wort.",
  },
  fr: {
    interface: "Interface", from: "De", into: "Vers", model: "Modèle", compare: "Comparer avec", key: "Clé d’API",
    settings: "Langues et modèles", text: "Texte", translation: "Traduction", type: "Saisir ou coller un texte",
    copy: "Copier", copied: "Copié.", document: "Document", choose: "Traduire un document :", history: "Historique",
    private: "Il reste dans ce navigateur.", clear: "Effacer l’historique", choices: "Autres mots",
    own: "Un autre mot :", continue: "Continuer", close: "Fermer", auto: "détecter", none: "aucun",
    alternatives: "Autres traductions", attention: "Attention", translating: "Traduction en cours …", done: "Traduit.",
    nothing: "Aucun autre mot n’est probable ici.", detected: "langue détectée : {0}", count: "{0} caractères sur {1}",
    offline: "Le serveur ne répond pas. Le texte sera traduit dès qu’il répondra.",
    uploading: "Envoi …", download: "Télécharger {0}", sentence: "Source :",
    terms: "Termes", "terms-help": "Un par ligne : terme = traduction. Un terme seul reste tel quel.",
    protect: "Garder les balises, adresses et variables comme {name}", certainty: "sûr à {0} %",
    confidence: "Confiance {0} % · chrF attendu {1}",
    legend: "Les mots soulignés sont moins sûrs : pointillés sous 80 %, ondulés sous 50 %.",
    hint: "Choisir un mot de la traduction pour voir ce qui pourrait s’y trouver. Les flèches changent de mot.",
  },
};

let language = "en";

export function text(name, ...values) {
  return TEXTS[language][name].replace(/\{(\d)\}/g, (_, index) => values[index]);
}

export function languageName(code) {
  return new Intl.DisplayNames(language, { type: "language" }).of(code.replaceAll("_", "-"));
}

export function show(code) {
  language = code in TEXTS ? code : "en";
  document.documentElement.lang = language;
  for (const one of document.querySelectorAll("[data-text]")) one.textContent = text(one.dataset.text);
  for (const one of document.querySelectorAll("[data-label]")) one.ariaLabel = text(one.dataset.label);
  for (const one of document.querySelectorAll("[data-placeholder]")) one.placeholder = text(one.dataset.placeholder);
  return language;
}
