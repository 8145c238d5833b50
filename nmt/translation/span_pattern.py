"""The pattern of protected spans; see `nmt.translation.spans`."""

import re

# Letters, digits and underscores of words, apart from scripts without blanks and from Korean, in
# which other words follow a placeholder without a blank.
_LETTER = r"(?:(?![\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\uffff\U00020000-\U0003ffff])\w)"
_CURRENCY = r"""(?: [A-Z]{0,3} [$¢£¤¥฿\u20a0-\u20cf＄￠￡￥￦] | (?: AED|ARS|AUD|BRL|CAD|CHF|CLP
    | CNY|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|THB|TWD|UAH
    | USD|VND|ZAR ) | Rs\.? | kr | Kč | zł | Ft )"""
# Every attempt to match ends where another one begins, so that the time is linear in the length of
# a text, see docs/decisions/0048-linear-time.md.
SPAN = re.compile(
    r"""
    # Comments, processing instructions and code of a server.
    < !? (?P<mark> -- | [?%] ) (?: (?! (?P=mark)> | <!?(?P=mark) ) [\s\S] )*+ (?P=mark) >
    # CDATA marks, document types.
    | <!\[CDATA\[ | \]\]> | <! [A-Za-z\[] [^<>]* >
    # Elements whose contents stay, too.
    | < (?P<kept> (?i: bpt|ept|ph|it|code|kbd|samp|var|svg|math|script|style|pre|textarea|template )
      \b | [A-Za-z][\w:.-]* (?= \s [^<>]* \b (?: translate="no | mtype="protected | notranslate )
      \b ) ) [^<>]* (?<!/)> (?: [^<]++ | < (?! (?i: /?(?P=kept) | sub ) \b ) )*+
      </ (?i: (?P=kept) ) \s*>
    # Other tags, also numbered ones such as <1>.
    | </? (?: [A-Za-z] (?: [^<>"]++ | "[^"<]*+" )*+ | \d{1,3} \s* /? ) >
    # Entities.
    | & (?: [A-Za-z][A-Za-z0-9]{1,30} | \#\d{1,7} | \#[xX][\dA-Fa-f]{1,6} ) ;
    # Code between backquotes.
    | (?<!`) (?P<fence> `{1,9}+ ) (?: (?!\s) | (?<=``) )
      (?: [^`]++ | (?! (?P=fence) (?!`) ) `++ )++ (?: (?<!\s) | (?=``) ) (?P=fence) (?!`)
    # URLs and addresses of mail.
    | (?: (?<![A-Za-z0-9+.-]) [A-Za-z][A-Za-z0-9+.-]{1,19} :// | www\. )
      [^\s<>"\u3000-\u303f\uff00-\uffef]* [^\s<>".,;:!?)\]}'»”\u3000-\u303f\uff00-\uffef]
    | (?<!LETTER) (?<![.+-]) (?: LETTER | [.+-] )++ @ (?: LETTER | - )+ (?: \. (?: LETTER | - )+ )+
    # Placeholders in brackets, and ICU arguments.
    | \{{2,3} [^{}]+ \}{2,3} | [$%\#@]\{ [^{}]* \} | \{(?: [%@:/$][^{}]* | \#[^{}]*\# | [^{}\s]* )\}
    | \{ \s* [$-]? [\w.-]{1,99} (?: \( [^(){}]* \) )? \s* \} | '[{}]+' | \[% [^\[\]]* %\]
    | \{ \s* [\w.-]{1,99} \s* , (?: [^{}]* | \s* choice \b (?: [^{}]++ | \{[^{}]*\} )*+ ) \}
    | \{ \s* [\w.-]{1,99} \s* , \s* (?: plural | selectordinal | select ) \b
    # Numbers with currencies or units.
    | (?<!LETTER) (?<![.,]) (?: [-+−]? (?P<currency> CURRENCY ) [\u00a0\u202f\ ]? )?
      (?P<number> [-+−]? (?> \d (?: [\d.,]* \d )? (?: [\u00a0\u202f\ ] \d{3} (?!\d) ){0,4} ) )
      (?(currency) (?!LETTER) | [\u00a0\u202f\ ]? (?P<unit> %%? (?! [({<@*+\#-] | \.\d ) | [‰％℃]
      | °[CF]? | [kMGT]i?[Bb] | [kMG]?bit/s | [kMG]?Hz | [kM]?Wh? | m?V | mAh | [kmµμ]?g | [cdm]?l
      | km/h | m/s | mph | [kcdmµμn]?m[²³]? | ha | ft | lb | oz | [mµμn]s | h | min | px | pt | dpi
      | dB | kcal | [hk]Pa | CURRENCY (?![({]) ) (?! LETTER | (?<=[A-Za-z²³])/ ) )
    # Formulas, variables such as $NAME.
    | (?<![$\\]) (?P<math> \${1,2}+ ) (?![\s\d]) [^$]+ (?<![\s\\]) (?P=math) (?! LETTER | \$ )
    | (?<!LETTER) \$ (?: \$ | \( [^()\s]+ \)
      | (?!\d) LETTER++ (?: (?: -> | :: | [./] ) LETTER++ )*+ (?: \( [^()]* \) )? )
    # Placeholders of printf, Qt and Windows.
    | % (?: % | \#@\w+@ | (?: \([^()]+\) | <\w+> )? (?: \d+\$ )? [-+0\#]* (?: \d+ | \* )?
      (?: \. (?: \d+ | \* ) )? (?: ll? | hh? | [jqtzL] )? [A-Za-z@] (?!LETTER)
      | L? \d{1,2} (?! LETTER | % ) | \d{1,2} % | [A-Za-z_] [\w.-]*+ % )
    # @user, and #topic or #f0f0f0.
    | (?<!LETTER) (?<![@./]) @ :? (?!\d) LETTER++ (?: [./-] LETTER++ )*+
      (?: @ (?: LETTER++ (?: [.-] LETTER++ )*+ )? )?
    | (?<!LETTER) (?<![&\#/]) \# (?: (?!\d) \w++ \#? | [\dA-Fa-f]{6} (?!\w) )
    # File paths.
    | (?<! [^\s"'(\[{«„“=] ) (?: (?: ~ | \.\.? ) / [\w.@+/-]* [\w/]
      | / [\w.@+-]+ / (?: [\w.@+/-]* [\w/] )?
      | (?: [A-Za-z]: | \\\\[\w.-]+ ) \\ [^\s<>"|?*]* [^\s<>"|?*.,;:!)]
      | (?: [\w-][\w.-]*+ / )+ [\w.-]* \w \.[a-z][a-z0-9]{0,4} (?!\w) )
    # :name, escapes, __name__.
    | (?<!\S) : (?!\d) LETTER{2,} :?
    | \\ (?: [nrt0"'\\] | x[\dA-Fa-f]{2} | u[\dA-Fa-f]{4} )
    | __ \w+? __
    # Delimiters without a partner.
    | <!?-- | -- > | <[?%]\w* | [?%]> | [{}]{2,} | \{% | %\} | `{3,}
    """.replace("LETTER", _LETTER).replace("CURRENCY", _CURRENCY),
    re.VERBOSE,
)

MONEY = re.compile(_CURRENCY, re.VERBOSE)
